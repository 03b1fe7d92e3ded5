"""Any chapter runs again in one command, and the page that it leaves opens with no network at all."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from commands import here
from playwright.sync_api import Browser
from tabs import watched

from companion.project import ROOT


@pytest.mark.usefixtures("without_kernel")
def test_a_chapter_reruns_with_another_level(browser: Browser, book: Path, tmp_path: Path) -> None:
    chapter, out, by = "holds", tmp_path / "run", ["dataset", "family", "k"]
    done = here("run", chapter, "-p", "level=0.8", "-p", "datasets=wikipedia", "--out", str(out), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    for fits, keys in (("fits", by), ("figure-6", ["models", *by])):
        shown = Path(chapter) / f"{fits}.csv"
        wide = pd.read_csv(ROOT / "_build" / "chapters" / chapter / shown)
        both = wide.merge(pd.read_csv(out / shown), on=keys).dropna(subset=["alpha_low_x", "alpha_low_y"])
        assert len(both) >= 4
        assert (both["alpha_low_y"] > both["alpha_low_x"]).all()
        assert (both["alpha_high_y"] < both["alpha_high_x"]).all()
    files = {path.suffix for path in (out / chapter).iterdir()}
    assert {".svg", ".png", ".csv"} <= files
    nbformat.validate(nbformat.read(out / f"{chapter}.ipynb", as_version=4))

    page = (out / f"{chapter}.html").as_uri()
    with watched(browser, page, page, viewport={"width": 390, "height": 844}, offline=True) as tab:
        assert tab.locator("figure.rbp-figure svg").count() >= 1
        assert "level = 0.8" in tab.locator("main").inner_text()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_papermill_alone_answers_and_writes_one_file(tmp_path: Path) -> None:
    """A notebook by itself has the run's values in its sentences, and says whose they are."""
    sizes = (10**6, 10**7, 10**8, 10**9)
    rows = [f"text,m{s},F,{s},neg_log_rbp,{k},{s**0.05:.6f}" for k in (1, 7) for s in sizes]
    (tmp_path / "mine.csv").write_text("\n".join(["dataset,model,family,size,metric,k,value", *rows]) + "\n")
    command = [sys.executable, "-m", "papermill", str(ROOT / "notebooks" / "holds.ipynb"), "out.ipynb"]
    before = set((ROOT / "runs").rglob("*"))
    given = ["-p", "measurements", "mine.csv", "-p", "ks", "1,7"]
    done = subprocess.run([*command, *given], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.csv", "out.ipynb"]
    assert set((ROOT / "runs").rglob("*")) == before
    notebook = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    words = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "{value}" not in words
    assert "the paper’s bar of 0.97 in 60 of 64 (this run: 2 of 2) fits" in words
    assert "(not in this run)" in words
    shown = [out.data["text/html"] for cell in notebook.cells for out in cell.get("outputs", []) if "data" in out]
    assert "the law holds in 0 of 2 cases of family, dataset and k. In 2 it fails: larger models are worse." in shown[0]
    figures = [each for each in shown if each.startswith("<figure")]
    assert len(figures) == 3
    assert all('<p class="rbp-data">Data: yours</p>' in each for each in figures)
