"""The command `rbp`, one module for each group of commands."""

from rbp.cli.app import main

__all__ = ["main"]
