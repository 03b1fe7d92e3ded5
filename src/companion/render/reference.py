"""A Sphinx extension for the book's reference: commands by their help, functions by their docstrings."""

import re
import textwrap
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import PycodeError
from sphinx.ext.autodoc.mock import _MockObject
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import stringify_annotation

COMMANDS = "book/commands"  # the page that the commands are added to

# What docstrings write in passing and reStructuredText would take for markup: *, | and a word that ends in _
_MARKUP = re.compile(r"(``.+?``)|`([^`]+?)`|([*|\\])|(?<=\w)(_)(?!\w)")


def _add_commands(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == COMMANDS:
        source[0] += commands()


def commands() -> str:
    """Describe every command except the hidden ones, in Markdown: usage, what it does, arguments and options."""
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from rbp.cli.app import app

    command: Any = get_command(app)
    _show(command)
    text = get_docs_for_click(obj=command, ctx=command.make_context("rbp", [], resilient_parsing=True), name="rbp")
    return text[text.index("\n## ") :]  # what is above is the help of all commands at once


def _show(command: Any) -> None:
    """Remove the hidden commands, from nested groups too."""
    for name, inner in list(getattr(command, "commands", {}).items()):
        if inner.hidden:
            del command.commands[name]
        _show(inner)


def _as_rest(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    lines[:] = rest("\n".join(lines)).split("\n")


def _short(
    app: Sphinx, what: str, name: str, obj: object, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Shorten signatures: print the name `ArrayLike` instead of its definition, and leave out private fields."""
    from numpy.typing import ArrayLike

    if signature:
        signature = signature.replace(stringify_annotation(ArrayLike, "smart"), "ArrayLike")
        signature = re.sub(r"(, |(?<=\())_\w+: [\w.~]+(\[.*?\])?", "", signature)
    return signature, returned


def rest(text: str) -> str:
    """Convert a docstring to reStructuredText that shows it verbatim: names as code, indented lines as a block."""
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


def _leave_unread(app: Sphinx, config: Any) -> None:
    """Let autodoc read no source of a module that it must not import: to find the source, it would import it."""
    for name in config.autodoc_mock_imports:
        ModuleAnalyzer.cache["module", name] = PycodeError(f"{name} is not imported")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    # what stands for modules that are not imported knows no `Tensor | None`, as annotations have it
    _MockObject.__or__ = _either  # type: ignore[method-assign, assignment]
    app.connect("config-inited", _leave_unread)
    app.connect("source-read", _add_commands)
    app.connect("autodoc-process-docstring", _as_rest)
    app.connect("autodoc-process-signature", _short)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
