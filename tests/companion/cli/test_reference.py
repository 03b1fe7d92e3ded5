"""The book's reference: every command that is not hidden, and docstrings that Sphinx shows as they stand."""

import re
from importlib import import_module

from docutils.core import publish_doctree
from typer.main import get_command

from companion.project import ROOT
from companion.reference import commands, rest
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


def test_docstrings_are_shown_as_they_stand():
    tree = publish_doctree(rest("Of `x` and ``y``: a * b, |c|, size_ and RBP_k.\n\n    y = A·S*\n\nEnd."))
    assert not list(tree.findall(lambda node: node.tagname in ("system_message", "problematic", "reference")))
    assert [node.astext() for node in tree.findall(lambda node: node.tagname == "literal")] == ["x", "y"]
    assert tree.children[0].astext() == "Of x and y: a * b, |c|, size_ and RBP_k."
    assert [node.astext() for node in tree.findall(lambda node: node.tagname == "literal_block")] == ["y = A·S*"]


def test_what_the_page_names_is_there_and_documented():
    page = (ROOT / "book" / "api.md").read_text(encoding="utf-8")
    for path in re.findall(r"^\.\. auto(?:function|class):: (\S+)$", page, re.MULTILINE):
        module, name = path.rsplit(".", 1)
        assert getattr(import_module(module), name).__doc__
