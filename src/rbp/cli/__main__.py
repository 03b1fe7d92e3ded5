"""`python -m rbp.cli`: the command `rbp`."""

from rbp.cli.main import main

main()
