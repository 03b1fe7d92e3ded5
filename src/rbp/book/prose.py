"""The words around a notebook's cells: heading, notes, glued numbers, and how to rerun the page."""

import html
import json
import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from rbp.book.parameters import Parameter

GLUE = re.compile(r"\{glue:\w*\}`(?:([^`]+?)\.(?:ipynb|md)::)?([^`:]+)(?::([^`]*))?`")
"""Glue: the other page without its ending, or None; the key; the format, or None."""

NOT_RECORDED = '<span title="this run recorded no such number">–</span>'
HEADING = re.compile(r"^# +(.+)$", re.MULTILINE)

Cells = list[dict[str, Any]]


def first_heading(cells: Cells) -> str | None:
    """The text of the first heading."""
    matches = (HEADING.search("".join(c["source"])) for c in cells if c["cell_type"] == "markdown")
    return next((found[1].strip() for found in matches if found), None)


def add_note(cells: Cells, note: str) -> None:
    """Put ``note`` below the title, or in a cell of its own before all others if there is none."""
    text = "".join(cells[0]["source"]) if cells and cells[0]["cell_type"] == "markdown" else ""
    title, _, rest = text.partition("\n")
    if title.startswith("# "):
        cells[0]["source"] = f"{title}\n\n{note}\n{rest}"
    else:
        cells.insert(0, {"cell_type": "markdown", "id": "run-note", "metadata": {}, "source": note})


def glued(notebook: Mapping[str, Any]) -> set[str]:
    """The keys that the cells of an executed notebook have glued."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return {output["metadata"]["scrapbook"]["name"] for output in outputs if "scrapbook" in output.get("metadata", {})}


def with_dashes(text: str, own: Collection[str]) -> str:
    """Markdown ``text`` with a dash for each number of its own page whose key is not among ``own``."""
    return GLUE.sub(lambda found: found[0] if found[1] is not None or found[2] in own else NOT_RECORDED, text)


def is_notebook(content: Any) -> bool:
    """Whether what is read of a notebook here is there, and of the right kind."""
    if not (isinstance(content, dict) and isinstance(content.get("cells"), list)):
        return False
    about = content.get("metadata", {})
    return (
        isinstance(about, dict)
        and isinstance(about.get("rbp", {}), dict)
        and all(
            isinstance(cell, dict)
            and cell.get("cell_type") in ("markdown", "code", "raw")
            and isinstance(cell.get("metadata", {}), dict)
            and are_texts(cell.get("metadata", {}).get("tags", []))
            and (isinstance(cell.get("source"), str) or are_texts(cell.get("source")))
            for cell in content["cells"]
        )
    )


def are_texts(value: Any) -> bool:
    """Whether it is a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def example(parameters: list[Parameter]) -> str:
    """One parameter with another value than its default, as `-p` takes it; "" if there is none."""
    for parameter in parameters:
        others = [choice for choice in parameter.choices or () if choice != parameter.default]
        if parameter.name == "level":
            return "-p level=0.9"
        if others and not parameter.type.startswith("list"):
            return shlex.join(["-p", f"{parameter.name}={others[0]}"])
    return shlex.join(["-p", f"{parameters[0].name}={_shown(parameters[0].default)}"]) if parameters else ""


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def rerun_box(chapter: str, parameters: list[Parameter]) -> str:
    """The section "Rerun this chapter" as HTML: the exact command, then name, type, default and meaning."""
    command = html.escape(f".venv/bin/rbp run {chapter} {example(parameters)}".strip())
    parts = [
        '<div class="rbp-rerun">',
        "<p>One command executes this chapter again, with other values of its parameters if you like, "
        "and writes its figures, their data and a page that opens offline into <code>runs/</code>:</p>",
        f"<pre>{command}</pre>",
    ]
    if parameters:
        head = "".join(f'<th class="txt">{name}</th>' for name in ("Parameter", "Type", "Default", "Meaning"))
        rows = "".join(f"<tr>{_row(parameter)}</tr>" for parameter in parameters)
        table = f'<table class="rbp-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        parts.append(f'<div class="rbp-scroll" tabindex="0">{table}</div>')
    return "".join([*parts, "</div>"])


def _in_code(value: object) -> str:
    """A value within backquotes: whatever it holds, it stays one word of the sentence."""
    return " ".join(_shown(value).replace("`", "'").split()) or '""'


def run_note(changed: Mapping[str, object]) -> str:
    """What a page with parameters that differ from the book's must say first, as Markdown."""
    given = ", ".join(f"`{name} = {_in_code(value)}`" for name, value in changed.items())
    return (
        f"> **This page was run with {given}.** Figures, tables and numbers are of this run; the "
        "sentences describe the book's own run. A dash (–) stands where this run has no such number.\n"
    )


def _row(parameter: Parameter) -> str:
    kind = parameter.type
    if parameter.choices is not None:
        kind = ("list of " if kind.startswith("list") else "") + " | ".join(map(_shown, parameter.choices))
    cells = (parameter.name, kind, _shown(parameter.default))
    code = "".join(f'<td class="txt"><code>{html.escape(cell)}</code></td>' for cell in cells)
    return f'{code}<td class="long">{html.escape(parameter.help)}</td>'
