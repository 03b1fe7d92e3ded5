"""The prose of a chapter: its heading, the note at its head, and its glued numbers."""

import re
from collections.abc import Collection, Mapping
from typing import Any

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
