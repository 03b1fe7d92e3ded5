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
from companion.render.build import build, chapter_code, chapter_inputs, differences_of_tree, run_chapter
from rbp.errors import RbpError

BUTTONS = ".article-header-buttons a[href^=http]"
REPOSITORY = "https://github.com/somebody/companion"


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
value = int(steps.table("double")["x"].sum())
if False:
    import small.other
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A small book whose second chapter reads a step's table."""
    project = Project(tmp_path_factory.mktemp("book"))
    write_book(project)
    with (project.root / "CITATION.cff").open("a") as citation:
        citation.write(f"repository-code: {REPOSITORY}\nurl: https://somebody.example/companion/\n")
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
    index = (project.html / "searchindex.js").read_text()
    terms = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["terms"]
    assert {"cell", "apart", "figur", "word"} <= terms.keys(), "stems"
    assert not {"ink", "celledapart", "also", "download", "displai", "pathlib"} & terms.keys(), "nor code"


def page(project, name):
    return BeautifulSoup((project.html / f"{name}.html").read_text(), "html.parser")


@pytest.mark.long
def test_figures_tables_and_equations_are_numbered_by_chapter(project):
    first, second = (page(project, f"notebooks/{name}") for name in ("01_a", "02_b"))
    captions = [each.get_text() for each in first.select("figure.rbp-figure .caption-number")]
    assert [each.strip() for each in captions] == ["Figure 1.1", "Table 1.1"]
    assert first.select_one("a.reference[href='#one']").get_text() == "Figure 1.1"
    assert second.select_one("a.reference[href='01_a.html#two']").get_text() == "Table 1.1"
    assert second.select_one("a.reference[href='01_a.html#equation-square']").get_text() == "(1.1)"


@pytest.mark.long
def test_the_buttons_of_a_page_lead_to_its_source_and_of_a_chapter_to_binder(project):
    buttons = {
        name: {link.get_text(strip=True): link["href"] for link in page(project, name).select(BUTTONS)}
        for name in ("notebooks/01_a", "book/more", "book/made")
    }
    title = "Issue%20on%20page%20%2Fnotebooks/01_a.html"
    assert buttons["notebooks/01_a"] == {
        "Repository": REPOSITORY,
        "Show source": f"{REPOSITORY}/blob/main/notebooks/01_a.ipynb?plain=1",
        "Open issue": f"{REPOSITORY}/issues/new?title={title}&body=Your%20issue%20content%20here.",
        "Binder": "https://mybinder.org/v2/gh/somebody/companion/main?urlpath=tree/notebooks/01_a.ipynb",
    }
    assert buttons["book/more"]["Show source"] == f"{REPOSITORY}/blob/main/book/more.md?plain=1"
    assert "Show source" not in buttons["book/made"], "the build makes it, and keeps it nowhere"


def words(project):
    """Every page but the one that says how long the build took, as a reader has it."""
    pages = {path.relative_to(project.html).as_posix(): path.read_text() for path in project.html.rglob("*.html")}
    return {name: text for name, text in pages.items() if name != "book/made.html"}


@pytest.mark.long
def test_a_changed_sentence_and_a_linters_pin_execute_nothing(project, executed):
    before, pages = checksums(project.chapters), words(project)
    edit(project.notebooks / "01_a.ipynb", "With $x^2$ it is", "With $x^3$ the value is")
    (project.root / "requirements-checks.lock").write_text("ruff==1\n")
    other = (project.html / "notebooks" / "02_b.html").stat()
    assert executed(pages=True) == set()
    assert "the value is 5.500" in page(project, "notebooks/01_a").get_text()
    assert (project.html / "notebooks" / "02_b.html").stat().st_mtime_ns == other.st_mtime_ns, "written once"
    edit(project.notebooks / "01_a.ipynb", "With $x^3$ the value is", "With $x^2$ it is")
    edit(project.book / "more.md", "# More", "# Zebras")
    assert executed(pages=True) == set()
    assert "Zebras" in page(project, "notebooks/02_b").get_text(), "where the contents are shown"
    assert checksums(project.chapters) == before
    assert differences_of_tree(project) == []
    renamed = {name: text.replace("Zebras", "More").replace("zebras", "more") for name, text in words(project).items()}
    assert [name for name in pages if renamed[name] != pages[name]] == [], "as in the build of all"


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


def test_a_chapter_depends_on_what_it_reads(tmp_path):
    project = Project(tmp_path)
    write_chapter(project, "01_a", reads=("data/b.csv",))
    write_chapter(project, "02_b", results_of=("01_a",))
    (project.root / "requirements.lock").touch()
    (project.root / "requirements-checks.lock").touch()
    assert chapter_inputs(project, "01_a") == ["data/b.csv", "requirements.lock"], "not the linters' pins"
    others = ["requirements.lock", "_build/chapters/01_a/results.json"]
    assert chapter_inputs(project, "02_b") == others


def stage_one(project, prose):
    """The Markdown of a book of one chapter, which records v = k + 0.5, as it is staged."""
    code = "value = k\nalso = {'v': k + 0.5}"
    write_chapter(project, "01_a", f"%%md\n{prose}", code, parameters="k: int = 1  # a number")
    project.book.mkdir(exist_ok=True)
    (project.book / "_toc.yml").write_text("format: jb-book\nroot: notebooks/01_a\n")
    assert run_chapter(project, "01_a")
    return staged(project)


def staged(project):
    site.stage(project)
    cells = json.loads((project.build / "source" / "notebooks" / "01_a.ipynb").read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


PROSE = "## The answer\n\nIt is {value}`v:.2f`, or {value}`value`."


@pytest.mark.usefixtures("without_kernel")
def test_prose_tells_the_accepted_values_and_the_page_says_where_this_build_differs(tmp_path):
    project = Project(tmp_path)
    assert "It is 1.50, or 1." in stage_one(project, PROSE)[1]  # nothing is accepted yet
    write_results(project.expected, {"01_a": {"v": Recorded(-0.25), "value": Recorded(1)}})
    title, prose = stage_one(project, PROSE)
    assert "It is −0.25, or 1." in prose
    assert "differs from the accepted results** in 1 of this chapter's values: `v` is moved" in title
    write_results(project.expected, {"01_a": {"v": Recorded(1.5), "value": Recorded(1)}})
    assert stage_one(project, PROSE)[0] == '# 1. Chapter 01_a\n\n<p class="rbp-minutes">1 min to read</p>\n'


@pytest.mark.usefixtures("without_kernel")
def test_a_page_has_the_sentences_of_now_and_a_chapter_is_of_its_code_alone(tmp_path):
    project = Project(tmp_path)
    stage_one(project, PROSE)
    code, notebook = chapter_code(project, "01_a"), project.notebooks / "01_a.ipynb"
    edit(notebook, "It is", "The value is")
    assert "The value is 1.50, or 1." in staged(project)[1]
    assert (chapter_code(project, "01_a"), differences_of_tree(project)) == (code, [])
    edit(notebook, "k + 0.5", "k + 0.6")
    assert chapter_code(project, "01_a") != code
    assert differences_of_tree(project) == ["01_a was built from another notebooks/01_a.ipynb"]


def test_words_and_figures_take_time_to_read_and_exercises_do_not():
    figure = {"output_type": "display_data", "data": {"text/html": '<figure class="rbp-figure" id="a"></figure>'}}
    text = f"# Title\n\n{'word ' * 399}\n\n## Exercises\n\n{'word ' * 1000}"
    cells = [{"cell_type": "markdown", "source": text}, {"cell_type": "code", "source": "", "outputs": [figure] * 3}]
    assert site.reading_minutes(cells) == 3  # 400 words, 3 figures
