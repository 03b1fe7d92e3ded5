"""A Sphinx extension for the book's reference: the commands by their own help, the functions by their docstrings."""

import re
import textwrap
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import _MockObject
from sphinx.util.typing import stringify_annotation

COMMANDS = "book/commands"  # the page that the commands are added to

# What docstrings write in passing and reStructuredText would take for markup: *, | and a word that ends in _
_MARKUP = re.compile(r"(``.+?``)|`([^`]+?)`|([*|\\])|(?<=\w)(_)(?!\w)")


def _add_commands(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == COMMANDS:
        source[0] += commands()


def commands() -> str:
    """Every command but the hidden ones, in Markdown: how it is called, what it does, arguments and options."""
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from rbp.cli.app import app

    command: Any = get_command(app)
    _show(command)
    text = get_docs_for_click(obj=command, ctx=command.make_context("rbp", [], resilient_parsing=True), name="rbp")
    return text[text.index("\n## ") :]  # what is above is the help of all commands at once


def _show(command: Any) -> None:
    """Take the hidden commands out, of groups within groups too."""
    for name, inner in list(getattr(command, "commands", {}).items()):
        if inner.hidden:
            del command.commands[name]
        _show(inner)


def _as_rest(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    lines[:] = rest("\n".join(lines)).split("\n")


def _short(
    app: Sphinx, what: str, name: str, obj: object, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Signatures with the name `ArrayLike`, which is spelt out else, and without what a class keeps to itself."""
    from numpy.typing import ArrayLike

    if signature:
        signature = signature.replace(stringify_annotation(ArrayLike, "smart"), "ArrayLike")
        signature = re.sub(r"(, |(?<=\())_\w+: [\w.~]+(\[.*?\])?", "", signature)
    return signature, returned


def rest(text: str) -> str:
    """A docstring as reStructuredText that shows it as it stands, names as code and indented lines as a block."""
    parts = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        if all(line.startswith("    ") for line in part.split("\n")):
            parts.append("::\n\n" + textwrap.indent(textwrap.dedent(part), "    "))
        else:
            parts.append(_MARKUP.sub(_marked, part))
    return "\n\n".join(parts) + "\n"


def _marked(match: re.Match[str]) -> str:
    code, name, sign, end = match.groups()
    return code or (f"``{name}``" if name else "\\" + (sign or end))


def _either(one: object, other: object) -> object:
    return one


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    # what stands for modules that are not imported knows no `Tensor | None`, as annotations have it
    _MockObject.__or__ = _either  # type: ignore[method-assign, assignment]
    app.connect("source-read", _add_commands)
    app.connect("autodoc-process-docstring", _as_rest)
    app.connect("autodoc-process-signature", _short)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
