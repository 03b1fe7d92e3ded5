import fcntl
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import pyarrow.parquet
import pytest
from bs4 import BeautifulSoup
from mini import write_book, write_chapter

from companion.execute.results import Recorded, read_chapter
from companion.execute.results import write_book as write_results
from companion.execute.run import times
from companion.project import Project
from companion.render import site
from companion.render.build import build, differences_of_tree, run_chapter
from rbp.errors import RbpError

STEP = """
from pathlib import Path

import pandas as pd

from companion.execute.steps import step


@step("double", reads=["data/b.csv"])
def double():
    return 2 * pd.read_csv(Path(__file__).parents[2] / "data" / "b.csv")
"""
PROSE_OF_TWO = """%%md
See {value}`01_a::v:.1f`, [this](../book/more.md), {numref}`01_a::two`, {eq}`square`.
"""
READ = """
from companion.execute import steps
value = int(steps.read_table("double")["x"].sum())
if False:
    import small.other
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A small book whose second chapter reads a step's table."""
    project = Project(tmp_path_factory.mktemp("book"))
    write_book(project)
    (project.root / "src" / "small" / "tables.py").write_text(STEP)
    (project.root / "data" / "b.csv").write_text("x\n1\n")
    write_chapter(project, "02_b", PROSE_OF_TWO, READ, steps=("double",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(project.root / "src"), prepend=os.pathsep)
        yield project


def done(said):
    """The chapters and steps that a build says it has executed."""
    return set(re.findall(r"^(?:\[\d/3\]|step) (\w+) … [\d.]+ s", said, re.MULTILINE))


@pytest.fixture
def executed(project, capfd):
    """Builds the project up to its results and returns which chapters were executed."""

    def run(pages=False):
        assert build(project, 2, pages=pages), capfd.readouterr()
        return done(capfd.readouterr().out)

    return run


def page(project, name):
    return BeautifulSoup((project.html / f"{name}.html").read_text(), "html.parser")


def checksums(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def stale(project):
    return {each.split()[0] for each in differences_of_tree(project)}


@pytest.mark.long
def test_the_book_is_built_whole(project, capfd):
    assert build(project, 2), capfd.readouterr()
    assert str(project.html / "index.html") in capfd.readouterr().out
    welcome = (project.html / "book" / "welcome.html").read_text()
    assert "5.50" in welcome
    results = json.loads(project.results.read_text())
    assert {name: values["value"]["value"] for name, values in results.items()} == {"01_a": 5, "02_b": 2, "03_c": 7}
    assert (project.html / "notebooks" / "01_a" / "data.csv").read_text() == "value\n5\n"
    assert "<math" in (project.html / "notebooks" / "01_a.html").read_text()
    first, second = (page(project, f"notebooks/{name}") for name in ("01_a", "02_b"))
    captions = [each.get_text() for each in first.select("figure.rbp-figure .caption-number")]
    assert [each.strip() for each in captions] == ["Figure 1.1", "Table 1.1"]
    assert first.select_one("a.reference[href='#one']").get_text() == "Figure 1.1"
    assert second.select_one("a.reference[href='01_a.html#two']").get_text() == "Table 1.1"
    assert second.select_one("a.reference[href='01_a.html#equation-square']").get_text() == "(1.1)"


@pytest.mark.long
def test_a_changed_sentence_and_a_linters_pin_execute_nothing(project, executed):
    before = checksums(project.chapters)
    edit(project.notebooks / "01_a.ipynb", "With $x^2$ it is", "With $x^3$ the value is")
    edit(project.book / "more.md", "# More", "# Zebras")
    (project.root / "requirements-checks.lock").write_text("ruff==1\n")
    assert executed(pages=True) == set()
    assert "the value is 5.500" in page(project, "notebooks/01_a").get_text()
    assert "Zebras" in page(project, "notebooks/02_b").get_text(), "where the contents are shown"
    assert checksums(project.chapters) == before
    assert differences_of_tree(project) == []


@pytest.mark.long
def test_what_is_executed_again_and_what_is_not(project, executed):
    for path in project.root.rglob("*"):
        if not {"_build", ".snakemake"} & set(path.parts):
            path.touch()  # which makes nothing stale
    before = checksums(project.chapters)
    shutil.copytree(project.chapters / "01_a", project.chapters / "04_gone")
    package = project.root / "src" / "small"
    edit(package / "bars.toml", "1", "2")
    assert stale(project) == {"01_a", "02_b"}, "who imports its package"
    edit(package / "bars.toml", "2", "1")
    edit(package / "code.py", "1", "2")
    assert stale(project) == {"01_a"}, "who imports it"
    assert executed() == {"01_a", "03_c"}, "the chapter, and the one that reads its results"
    assert differences_of_tree(project) == []
    assert checksums(project.chapters) == before, "the same bytes, and no chapter that is gone"
    assert times(project).keys() == {"double", "01_a", "02_b", "03_c"}


SAVED = """
from pathlib import Path
value, file = 1, Path("notebooks/a.ipynb")
file.write_text(file.read_text().replace("1", "2"))  # as somebody might at this moment
"""


@pytest.mark.usefixtures("without_kernel")
def test_a_chapter_whose_input_changes_while_it_runs_fails(tmp_path, capfd):
    project = Project(tmp_path)
    (tmp_path / "requirements.lock").write_text("one==1\n")
    write_chapter(project, "a", SAVED)
    assert not run_chapter(project, "a")
    assert "a failed: an input was changed while it was in use (notebooks/a.ipynb)" in capfd.readouterr().out
    assert differences_of_tree(project) == ["a is not built"]
    assert run_chapter(project, "a"), capfd.readouterr()
    assert read_chapter(project.chapters / "a" / "results.json").values["value"].value == 2
    assert differences_of_tree(project) == []


@pytest.mark.long
def test_what_fails_is_named_and_the_old_book_stays(project, capfd):
    before = checksums(project.html)
    edit(project.book / "more.md", "Words.", "[nowhere](nowhere.md)")
    with pytest.raises(RbpError, match=r"book/more.md:3: WARNING: .*nowhere"):
        build(project, 2)
    assert checksums(project.html) == before

    edit(project.root / "data" / "a.csv", "1", "10")
    assert differences_of_tree(project) == ["01_a was built from another data/a.csv"]
    edit(project.root / "data" / "b.csv", "1", "3")
    edit(project.notebooks / "02_b.ipynb", "value = int", "value = 1 / 0 * int")
    assert not build(project, 2)
    said = capfd.readouterr()
    assert done(said.out) == {"double", "01_a"}, "the step for its data, and the chapter; none that reads what failed"
    assert read_chapter(project.chapters / "01_a" / "results.json").values["value"].value == 1 + 5
    assert pyarrow.parquet.read_table(project.steps / "double.parquet")["x"].to_pylist() == [2 * 3]
    assert "[2/3] 02_b failed: 02_b failed at cell 3: ZeroDivisionError: division by zero" in said.out
    (partial,) = re.findall("The partial notebook: (.+)", said.out)
    assert "ZeroDivisionError" in Path(partial).read_text()
    assert "Traceback" not in said.out + said.err
    assert "The book is not complete." in said.err
    assert checksums(project.html) == before
    assert "02_b is not built" in differences_of_tree(project)


def test_one_build_at_a_time(project):
    project.build.mkdir(exist_ok=True)
    with (project.build / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RbpError, match="another build of this book is running"):
            build(project)


@pytest.mark.usefixtures("without_kernel")
def test_prose_tells_the_accepted_values_and_the_page_says_where_this_build_differs(tmp_path):
    project = Project(tmp_path)
    prose, code = "%%md It is {value}`v:.2f`, or {value}`value`.", "value = k\nalso = {'v': k + 0.5}"
    write_chapter(project, "01_a", prose, code, parameters="k: int = 1  # a number")
    project.book.mkdir(exist_ok=True)
    (project.book / "_toc.yml").write_text("format: jb-book\nroot: notebooks/01_a\n")
    assert run_chapter(project, "01_a")

    def staged():
        site.stage(project)
        cells = json.loads((project.build / "source" / "notebooks" / "01_a.ipynb").read_text())["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]

    assert "It is 1.50, or 1." in staged()[1]  # nothing is accepted yet
    write_results(project.expected, {"01_a": {"v": Recorded(-0.25), "value": Recorded(1)}})
    title, text = staged()
    assert "It is −0.25, or 1." in text
    assert "differs from the accepted results** in 1 of this chapter's values: `v` is moved" in title
