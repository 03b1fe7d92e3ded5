"""Some executed chapters as pages of their own, without the rest of the book: all that ties them to it is resolved.

Numbers glued in from other chapters are written out. Links to pages that are not there are left to
`rbp.onepage.keep_links`, which makes them text. A number that a run did not record (a family that its data lack, say)
becomes a dash.
"""

import json
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from rbp import results
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


def page_of(project: Project, executed: Path, nearer: results.Results | None = None) -> str:
    """The executed notebook in a file, as the text of a page that needs no other, with the references that it cites.

    Numbers of other chapters are those of `nearer`, or else of the built book.
    """
    built = results.read_book(project.results) if project.results.exists() else {}
    built |= nearer or {}
    notebook: dict[str, Any] = json.loads(executed.read_text(encoding="utf-8"))
    cells, own = [], glued(notebook)
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        cells.append(cell | {"source": fill_in(source, built, own)} if cell["cell_type"] == "markdown" else cell)
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    if "{cite" in text and "{bibliography}" not in text:
        cells.append({"cell_type": "markdown", "id": "references", "metadata": {}, "source": REFERENCES})
    return json.dumps({**notebook, "cells": cells})


def build(
    project: Project, pages: Mapping[str, str], base: Path, files: Mapping[str, Path] | None = None, title: str = ""
) -> Path:
    """Build HTML pages in the empty folder ``base``; returns the folder that they are in.

    pages: their texts by their paths with endings, the first one first; files: files and folders to stand beside the
    pages, by their paths there; title: of all of it (none: the book's). Looks and settings are the project's. Raises
    RbpError if they cannot be built.
    """
    source, extra = base / "source", base / "extra"
    shutil.copytree(project.book, source / "book", ignore=shutil.ignore_patterns(".*", "*.md", "*.toml"))
    root, *others = [str(Path(path).with_suffix("")) for path in pages]
    listed = {"chapters": [{"file": page} for page in others]} if others else {}  # an empty list is refused
    write_file(source / "_toc.yml", yaml.safe_dump({"format": "jb-book", "root": root, **listed}))
    for path, text in pages.items():
        write_file(source / path, text)
    extra.mkdir()
    for path, file in (files or {}).items():
        (extra / path).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if file.is_dir() else shutil.copyfile)(file, extra / path)
    copy_scripts(base / "static")
    config = yaml.safe_load((project.root / "_config.yml").read_text(encoding="utf-8"))
    config |= {"title": title or config["title"], "repository": {"url": ""}}  # no buttons that lead out
    write_file(base / "_config.yml", yaml.safe_dump(config))
    return jupyter_book(source, base / "_config.yml", base / "build", strict=False)
