"""`python -m rbp.cli`: the command `rbp`."""

from rbp.cli import main

main()
