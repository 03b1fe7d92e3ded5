"""Small books for the tests: chapters that import no more than the standard library."""

import json
import textwrap
from pathlib import Path
from typing import Any

import nbformat

from rbp.paths import Project

CLOSE = """
import json, os, pathlib
out = pathlib.Path(os.environ["RBP_OUT"])
(out / "{name}").mkdir()
(out / "{name}" / "data.csv").write_text(f"value\\n{{value}}\\n")
values = {{"value": {{"value": value, "unit": "", "tolerance": 1e-9}}}}
(out / "results.json").write_text(json.dumps({{"chapter": "{name}", "values": values, "reads": {reads!r}}}))
"""


def write_chapter(
    project: Project,
    name: str,
    *cells: str,
    parameters: str | None = None,
    close: bool = True,
    reads: tuple[str, ...] = (),
    declared: tuple[str, ...] | None = None,
    results_of: tuple[str, ...] = (),
) -> Path:
    """A chapter with a heading, a parameters cell, the ``cells``, and a last cell that records ``value``."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["rbp"] = {
        "reads": list(reads if declared is None else declared),
        "results_of": list(results_of),
    }
    add = notebook.cells.append
    add(nbformat.v4.new_markdown_cell(f"# Chapter {name}", id="title"))
    if parameters is not None:
        add(
            nbformat.v4.new_code_cell(
                textwrap.dedent(parameters).strip(), metadata={"tags": ["parameters"]}, id="p"
            )
        )
    for number, cell in enumerate(cells):
        if cell.startswith("%%md"):
            add(nbformat.v4.new_markdown_cell(cell[4:].strip(), id=f"md-{number}"))
        else:
            add(nbformat.v4.new_code_cell(textwrap.dedent(cell).strip(), id=f"code-{number}"))
    if close:
        add(nbformat.v4.new_code_cell(CLOSE.format(name=name, reads=list(reads)).strip(), id="close"))
    path = project.notebooks / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def outputs(path: Path) -> str:
    """All text that the cells of an executed notebook put out."""
    cells: list[Any] = json.loads(path.read_text())["cells"]
    texts = [output.get("text", "") for cell in cells for output in cell.get("outputs", [])]
    return "".join("".join(text) for text in texts)
