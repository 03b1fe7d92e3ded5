"""Any chapter runs again in one command, and the page that it leaves opens with no network at all."""

import subprocess
import sys

import nbformat

from companion.project import ROOT


def runs():
    """What the project's runs have left, but for readers', whose tests may run meanwhile."""
    return {path for path in (ROOT / "runs").rglob("*") if "live" not in path.parts}


def test_papermill_alone_answers_and_writes_one_file(tmp_path):
    sizes = (10**6, 10**7, 10**8, 10**9)
    rows = [f"text,m{s},F,{s},neg_log_rbp,{k},{s**0.05:.6f}" for k in (1, 7) for s in sizes]
    (tmp_path / "mine.csv").write_text("\n".join(["dataset,model,family,size,metric,k,value", *rows]) + "\n")
    command = [sys.executable, "-m", "papermill", str(ROOT / "notebooks" / "holds.ipynb"), "out.ipynb"]
    before = runs()
    given = ["-p", "measurements", "mine.csv", "-p", "ks", "1,7"]
    done = subprocess.run([*command, *given], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.csv", "out.ipynb"]
    assert runs() == before
    notebook = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    words = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "{value}" not in words
    assert (
        "the paper’s bar of 0.97 in 60 of 64 (this run: none of 2) fits" in words
    )  # lines that rise are not the law’s
    assert "**Up to k = 100, lines fall with size and reach R² 0.97 in none of 2 cases (this run).**" in words
    assert "(not in this run)" in words
    shown = [out.data["text/html"] for cell in notebook.cells for out in cell.get("outputs", []) if "data" in out]
    assert (
        "the law holds in none of 2 cases of family, dataset and k. In 2 it fails: larger models are worse." in shown[0]
    )
    figures = [each for each in shown if each.startswith("<figure")]
    assert all('<p class="rbp-data">Data: yours</p>' in each for each in figures)
