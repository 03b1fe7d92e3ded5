"""The live book: `rbp serve` shows the built book and executes its chapters with the values that a reader gives."""
