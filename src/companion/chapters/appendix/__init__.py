"""What the appendices of the book rest on: a module or a folder for each."""
