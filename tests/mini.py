"""Small books for the tests: chapters that import no more than the standard library."""

import json
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

import nbformat

from companion.project import ROOT, Project

CLOSE = """
import json, os, pathlib
out = pathlib.Path(os.environ["RBP_OUT"])
(out / "{name}").mkdir()
(out / "{name}" / "data.csv").write_text(f"value\\n{{value}}\\n")
values = {{"value": {{"value": value, "unit": "", "tolerance": 1e-9}}}}
for key, other in globals().get("also", {{}}).items():
    values[key] = {{"value": other, "unit": "", "tolerance": 1e-9}}
(out / "results.json").write_text(json.dumps({{"chapter": "{name}", "values": values, "reads": {reads!r}}}))
"""


FIGURE = """
from IPython.display import HTML, display
display(HTML('<figure class="rbp-figure" id="one"><svg role="img"><text>inked</text></svg>'
             '<figcaption><b>A figure.</b> Words'
             ' <span class="rbp-downloads">Download</span></figcaption></figure>'))
display(HTML('<figure class="rbp-figure rbp-tabled" id="two"><table><tr><td>celled</td><td>apart</td></tr></table>'
             '<figcaption><b>A table.</b> Words</figcaption></figure>'))
"""
"""What `Page` shows of a figure and of a table, in short."""


def write_chapter(
    project: Project,
    name: str,
    *cells: str,
    parameters: str | None = None,
    imports: bool = False,
    close: bool = True,
    reads: tuple[str, ...] = (),
    declared: tuple[str, ...] | None = None,
    results_of: tuple[str, ...] = (),
    steps: tuple[str, ...] = (),
) -> Path:
    """A chapter with a heading, a parameters cell, the ``cells``, and a last cell that records ``value``."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata["rbp"] = {
        "reads": list(reads if declared is None else declared),
        "results_of": list(results_of),
        "steps": list(steps),
    }
    add = notebook.cells.append
    add(nbformat.v4.new_markdown_cell(f"# Chapter {name}", id="title"))
    if imports:
        add(nbformat.v4.new_code_cell("from typing import Literal", id="imports"))
    if parameters is not None:
        add(nbformat.v4.new_code_cell(textwrap.dedent(parameters).strip(), metadata={"tags": ["parameters"]}, id="p"))
    for number, cell in enumerate(cells):
        if cell.startswith("%%md"):
            add(nbformat.v4.new_markdown_cell(cell[4:].strip(), id=f"md-{number}"))
        else:
            add(nbformat.v4.new_code_cell(textwrap.dedent(cell).strip(), id=f"code-{number}"))
    if close:
        read = ", ".join(re.findall(r"^\s*(\w+):", parameters or "", re.MULTILINE))  # a parameter must be read
        source = f"_ = [{read}]\n" + CLOSE.format(name=name, reads=list(reads)).strip()
        add(nbformat.v4.new_code_cell(source, id="close"))
    path = project.notebooks / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def outputs(path: Path) -> str:
    """All text that the cells of an executed notebook put out."""
    cells: list[Any] = json.loads(path.read_text())["cells"]
    texts = [output.get("text", "") for cell in cells for output in cell.get("outputs", [])]
    return "".join("".join(text) for text in texts)


def write_book(project: Project) -> None:
    """Three chapters and two pages, under the real configuration; the third chapter reads the others' results."""
    (project.root / "data").mkdir(parents=True)
    (project.root / "data" / "a.csv").write_text("x\n1\n")
    (project.root / "requirements.lock").write_text("one==1\n")
    package = project.root / "src" / "small"
    package.mkdir(parents=True)
    for name in ("__init__", "code", "other"):
        (package / f"{name}.py").write_text("ONE = 1\n")
    (package / "bars.toml").write_text("one = 1\n")
    write_chapter(
        project,
        "01_a",
        "%%md With $x^2$ it is {value}`v:.3f`, as in {numref}`one`.\n\n$$y = x^2$$ (square)",
        "value = k + len(open('data/a.csv').read())\nalso = {'v': value + 0.5}",
        "if False:\n    from small import code",
        FIGURE,
        parameters="k: int = 1  # a number",
        reads=("data/a.csv",),
    )
    write_chapter(
        project,
        "02_b",
        "%%md See {value}`01_a::v:.1f`, [this](../book/more.md), {numref}`01_a::two`, {eq}`square`.",
        "value = 2\nif False:\n    import small.other",
    )
    write_chapter(
        project,
        "03_c",
        """
        import json
        files = [f"_build/chapters/{name}/results.json" for name in ("01_a", "02_b")]
        value = sum(json.load(open(file))["values"]["value"]["value"] for file in files)
        """,
        results_of=("*",),
    )
    for name in ("_config.yml", "CITATION.cff"):
        shutil.copy(ROOT / name, project.root)
    shutil.copytree(ROOT / "book" / "_static", project.book / "_static")
    shutil.copy(ROOT / "book" / "references.bib", project.book)
    toc = "format: jb-book\nroot: book/welcome\nchapters:\n"
    pages = ("notebooks/01_a", "notebooks/02_b", "notebooks/03_c", "book/more", "book/made")
    (project.book / "_toc.yml").write_text(toc + "".join(f"- file: {page}\n" for page in pages))
    welcome = "# Welcome\n\nIt is {value}`01_a::v:.2f`.\n"
    (project.book / "welcome.md").write_text(welcome)
    (project.book / "more.md").write_text("# More\n\nWords.\n")
