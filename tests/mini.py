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

#: what `Page` shows of a figure and of a table, in short
FIGURE = """
from IPython.display import HTML, display
display(HTML('<figure class="rbp-figure" id="one"><svg role="img"><text>inked</text></svg>'
             '<figcaption><b>A figure.</b> Words'
             ' <span class="rbp-downloads">Download</span></figcaption></figure>'))
display(HTML('<figure class="rbp-figure rbp-tabled" id="two"><table><tr><td>celled</td><td>apart</td></tr></table>'
             '<figcaption><b>A table.</b> Words</figcaption></figure>'))
"""


def write_chapter(
    project, name, *cells, parameters=None, close=True, reads=(), declared=None, results_of=(), steps=()
) -> Path:
    """A chapter with a heading, a parameters cell, the ``cells``, and a last cell that records ``value``."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    declared = reads if declared is None else declared
    notebook.metadata["rbp"] = {"reads": list(declared), "results_of": list(results_of), "steps": list(steps)}

    def add(source: str, **metadata: Any) -> None:
        new = nbformat.v4.new_markdown_cell if source.startswith("%%md") else nbformat.v4.new_code_cell
        text = textwrap.dedent(source.removeprefix("%%md")).strip()
        notebook.cells.append(new(text, id=f"cell-{len(notebook.cells)}", metadata=metadata))

    add(f"%%md # Chapter {name}")
    if parameters is not None:
        if "Literal" in parameters:
            add("from typing import Literal")
        add(parameters, tags=["parameters"])
    for cell in cells:
        add(cell)
    if close:
        read = ", ".join(re.findall(r"^\s*(\w+):", parameters or "", re.MULTILINE))  # a parameter must be read
        add(f"_ = [{read}]\n" + CLOSE.format(name=name, reads=list(reads)).strip())
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
    files = {"data/a.csv": "x\n1\n", "requirements.lock": "one==1\n", "src/small/bars.toml": "one = 1\n"}
    files |= {f"src/small/{name}.py": "ONE = 1\n" for name in ("__init__", "code", "other")}
    for name, text in files.items():
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
        (project.root / name).write_text(text)
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
    summed = """
        import json
        files = [f"_build/chapters/{name}/results.json" for name in ("01_a", "02_b")]
        value = sum(json.load(open(file))["values"]["value"]["value"] for file in files)
        """
    write_chapter(project, "03_c", summed, results_of=("*",))
    for name in ("_config.yml", "CITATION.cff"):
        shutil.copy(ROOT / name, project.root)
    shutil.copytree(ROOT / "book" / "_static", project.book / "_static")
    shutil.copy(ROOT / "book" / "references.bib", project.book)
    pages = ("notebooks/01_a", "notebooks/02_b", "notebooks/03_c", "book/more", "book/made")
    toc = "format: jb-book\nroot: book/welcome\nchapters:\n" + "".join(f"- file: {page}\n" for page in pages)
    welcome = "# Welcome\n\nIt is {value}`01_a::v:.2f`.\n"
    for name, text in {"_toc.yml": toc, "welcome.md": welcome, "more.md": "# More\n\nWords.\n"}.items():
        (project.book / name).write_text(text)
