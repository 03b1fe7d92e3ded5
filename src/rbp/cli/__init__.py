"""The command `rbp`, one module for each group of commands."""
