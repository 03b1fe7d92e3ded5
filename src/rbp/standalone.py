"""One executed chapter as one HTML file that opens offline: a book of one page, everything put into it.

Other pages are not there: links to them become text, and numbers glued in from other chapters are taken from
the built book's results. A number that this run did not record (a family that its data lack, say) becomes a dash.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rbp import onepage, results
from rbp.chapters import Chapter
from rbp.files import write_file
from rbp.paths import Project
from rbp.prose import GLUE, glued, with_dashes
from rbp.site import copy_scripts, jupyter_book

REFERENCES = "## References\n\n```{bibliography}\n:filter: docname in docnames\n```\n"


def fill_in(text: str, built: results.Results, own: Collection[str]) -> str:
    """Markdown ``text`` with the numbers of other chapters written out; "(see the book)" for unknown ones.

    The chapter's numbers are left to the page's builder, if their keys are among its ``own``; else a dash stands there.
    """

    def number(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        recorded = built.get(Path(found[1]).name, {}).get(found[2])
        return format(recorded.value, found[3] or "") if recorded else "(see the book)"

    return GLUE.sub(number, with_dashes(text, own))


def _one_page(notebook: Mapping[str, Any], built: results.Results) -> dict[str, Any]:
    """The executed notebook without ties to other pages, and with the references that it cites."""
    cells, own = [], glued(notebook)
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        cells.append(cell | {"source": fill_in(source, built, own)} if cell["cell_type"] == "markdown" else cell)
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    if "{cite" in text and "{bibliography}" not in text:
        cells.append({"cell_type": "markdown", "id": "references", "metadata": {}, "source": REFERENCES})
    return {**notebook, "cells": cells}


def render(project: Project, chapter: Chapter, folder: Path) -> Path:
    """Write ``NN_name.html`` beside the executed ``NN_name.ipynb`` in ``folder``; returns its path.

    The page loads nothing; it links to the figures' files in ``NN_name/`` beside it. Raises RbpError if it
    cannot be built.
    """
    name = chapter.name
    notebook = json.loads((folder / f"{name}.ipynb").read_text(encoding="utf-8"))
    built = results.read_book(project.results) if project.results.exists() else {}
    with tempfile.TemporaryDirectory(prefix="rbp-page-") as temporary:
        base = Path(temporary).resolve()
        source = base / "source"
        shutil.copytree(project.book, source / "book", ignore=shutil.ignore_patterns(".*", "*.md", "*.toml"))
        write_file(source / "_toc.yml", f"format: jb-book\nroot: notebooks/{name}\n")
        write_file(source / "notebooks" / f"{name}.ipynb", json.dumps(_one_page(notebook, built)))
        (base / "extra").mkdir()
        copy_scripts(base / "static")
        html = jupyter_book(source, project.root / "_config.yml", base / "build", strict=False)
        page = html / "notebooks" / f"{name}.html"
        soup = onepage.read(page)
        onepage.drop_navigation(soup)
        onepage.inline(soup, page.parent)
        onepage.keep_links(soup, beside=name)
    target = folder / f"{name}.html"
    write_file(target, str(soup))
    return target
