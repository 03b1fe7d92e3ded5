"""The book's reference: every command that is not hidden."""

import re

from typer.main import get_command

from companion.reference import commands
from rbp.cli.app import app


def names(command, path):
    inner = getattr(command, "commands", {})
    return [path] * (path != "rbp") + [
        n for name, c in inner.items() if not c.hidden for n in names(c, f"{path} {name}")
    ]


def test_every_command_has_its_help_and_the_hidden_ones_have_none():
    text = commands()
    assert re.findall(r"^#+ `(.+)`$", text, re.MULTILINE) == names(get_command(app), "rbp")
    assert "rbp ranks export" in text
    assert "_chapter" not in text
    assert "--shard" in text
