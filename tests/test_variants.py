"""Companion pages: a small book with one, from the file that asks for it to the page."""

import json
import re
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from mini import write_book, write_chapter
from typer.testing import CliRunner

from rbp import results
from rbp.book import build, chapter_inputs, chapter_names, overrides
from rbp.chapters import all_chapters, find
from rbp.cli import app
from rbp.errors import ParameterError
from rbp.page import Page
from rbp.paths import Project
from rbp.prose import without_targets
from rbp.variants import contents

TOML = """
[01_a.ladder]
label = "the ladder"
measurements = "data/own.csv"

[01_a.two]
label = "two datasets"
datasets = ["x", "y"]
"""
PARAMETERS = """
measurements: str = "data/a.csv"  # where the numbers come from
datasets: list[str] = []  # which ones; empty = all
"""
PROSE = """%%md
(the-place)=
It is {glue:text}`v:.1f` in {glue:text}`source:s`, by default only {glue:text}`own.a:.1f`; see [there](#the-place).
Of the other chapter: {glue:text}`02_b.ipynb::w:.1f`.
"""
CODE = """
from myst_nb import glue
value = len(open(measurements).read().split()) + 10 * len(datasets)
glue("v", value + 0.5, display=False)
glue("source", measurements, display=False)
if measurements == "data/a.csv":
    glue("own.a", 1.5, display=False)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The book of `mini` with two companion pages of its first chapter, which page 02_b and the first page cite."""
    project = Project(tmp_path_factory.mktemp("variants"))
    write_book(project)
    write_chapter(project, "01_a", PROSE, CODE, parameters=PARAMETERS, reads=("data/a.csv",))
    both = "%%md Here {glue:text}`01_a.ipynb::v:.1f`, there {glue:text}`01_a-ladder.ipynb::v:.1f`."
    write_chapter(
        project, "02_b", both, "from myst_nb import glue\nvalue = 2\nglue('w', 7.5, display=False)", results_of=()
    )
    (project.root / "data" / "own.csv").write_text("x\n1\n2\n3\n")
    (project.book / "variants.toml").write_text(TOML)
    return project


def small(folder: Path, toml: str | None) -> Project:
    project = Project(folder)
    write_chapter(project, "01_a", parameters="k: int = 1  # a number")
    write_chapter(project, "02_b", results_of=("*",))
    project.book.mkdir()
    if toml is not None:
        (project.book / "variants.toml").write_text(toml)
    return project


def test_a_book_without_the_file_has_no_companion_pages(tmp_path: Path) -> None:
    assert chapter_names(small(tmp_path, None)) == ["01_a", "02_b"]


def test_a_companion_page_is_a_chapter_of_the_same_notebook(tmp_path: Path) -> None:
    project = small(tmp_path, '[02_b.x]\nlabel="x"\nz = 1\n[01_a.more]\nlabel = " more of it "\nk = 3\n')
    assert chapter_names(project) == ["01_a", "01_a-more", "02_b", "02_b-x"]
    own, page = all_chapters(project)[:2]
    assert (page.path, page.title) == (own.path, "Chapter 01_a: more of it")
    assert overrides(project, page) == page.values == {"k": 3}
    assert overrides(project, own) == own.values == {}
    assert [p.default for p in page.own_parameters] == [3]
    assert page.short_hash({}) != own.short_hash({})
    for name in ("01_a-more", "a-more"):
        assert find(project, name) == page
    assert find(project, "1") == own
    with pytest.raises(ParameterError, match='Did you mean "01_a-more"'):
        find(project, "01_a-moer")
    (project.book / "parameters.toml").write_text("[01_a-more]\nk = 4\n")
    assert overrides(project, page) == {"k": 4}


def test_a_question_keeps_its_mark(tmp_path: Path) -> None:
    project = small(tmp_path, '[01_a.more]\nlabel = "the ladder"\nk = 3\n')
    path = project.notebooks / "01_a.ipynb"
    path.write_text(path.read_text().replace("# Chapter 01_a", "# Is it so?"))
    assert find(project, "a-more").title == "Is it so? The ladder"


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        (
            '[01_b.x]\nlabel = "x"\nk = 2',
            r'"01_b" is no table of a chapter \(book/variants.toml.*\n.*There are: 01_a, 02_b',
        ),
        ("k = 1", '"k" is no table'),
        ("[01_a]\nk = 1", r"no companion page \(book/variants.toml, \[01_a.k\]"),
        ('[01_a."x y"]\nlabel = "x"\nk = 2', "no companion page"),
        ("[01_a.x]\nk = 2", "has no label"),
        ("[01_a.x]\nlabel = 1\nk = 2", "has no label"),
        ("[01_a.x]\nlabel = ' '\nk = 2", "has no label"),
        ("[01_a.x]\nlabel = 'x'", "sets no parameter"),
        ("[01_a.x]\nlabel = 'x'\nq = 1", r'no parameter "q" \(01_a-x'),
        ("[01_a.x]\nlabel = 'x'\nk = 'one'", "no int"),
        ("[01_a.x", r"not TOML.*book/variants\.toml"),
    ],
)
def test_the_file_is_validated(tmp_path: Path, toml: str, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        build(small(tmp_path, toml))


def test_what_a_companion_page_depends_on(project: Project) -> None:
    page = chapter_inputs(project, "01_a-ladder")
    assert {"notebooks/01_a.ipynb", "data/own.csv"} <= set(page)
    assert "data/own.csv" not in chapter_inputs(project, "01_a")
    ledger = chapter_inputs(project, "03_c")
    assert {f"_build/chapters/{name}/results.json" for name in ("01_a", "01_a-ladder", "01_a-two")} <= set(ledger)


def test_measurements_may_be_named_by_their_folder_of_data(tmp_path: Path) -> None:
    project = small(tmp_path, '[01_a.x]\nlabel = "x"\nmeasurements = "own"\n')
    write_chapter(project, "01_a", parameters='measurements: str = "published"  # source')
    (tmp_path / "data" / "own").mkdir(parents=True)
    (tmp_path / "data" / "own" / "part.csv").touch()
    assert "data/own/part.csv" in chapter_inputs(project, "01_a-x")


def test_a_ledger_and_its_companion_do_not_wait_for_each_other(tmp_path: Path) -> None:
    project = small(tmp_path, "[02_b.x]\nlabel = 'x'\nk = 2\n")
    write_chapter(project, "02_b", parameters="k: int = 1  # a number", results_of=("*",))
    for name in ("02_b", "02_b-x"):
        assert [path for path in chapter_inputs(project, name) if "results" in path] == [
            "_build/chapters/01_a/results.json"
        ]


def test_a_page_knows_its_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RBP_OUT", str(tmp_path))
    monkeypatch.setenv("RBP_CHAPTER", "03_k1-ladder")
    page = Page("03_k1")
    assert (page.name, page.files) == ("03_k1-ladder", tmp_path / "03_k1-ladder")
    assert Page("03_k").name == "03_k", "a notebook that calls itself by another name is found out"
    monkeypatch.delenv("RBP_CHAPTER")
    assert Page("03_k1").name == "03_k1"


def test_the_contents_hold_each_companion_page_below_its_chapter() -> None:
    toc = """
        root: book/welcome
        parts:
          - caption: Äll
            chapters:
              - file: notebooks/01_a
                sections: [{file: book/more}]
              - file: notebooks/02_b
    """
    companions = [(f"notebooks/{a}", f"notebooks/{a}-{b}", b.title()) for a, b in (("01_a", "x"), ("02_b", "y"))]
    assert yaml.safe_load(contents(toc, companions)) == {
        "root": "book/welcome",
        "parts": [
            {
                "caption": "Äll",
                "chapters": [
                    {
                        "file": "notebooks/01_a",
                        "sections": [{"file": "book/more"}, {"file": "notebooks/01_a-x", "title": "X"}],
                    },
                    {"file": "notebooks/02_b", "sections": [{"file": "notebooks/02_b-y", "title": "Y"}]},
                ],
            }
        ],
    }


def test_targets_stay_on_the_chapters_own_page() -> None:
    assert without_targets("(a-b)=\n## Head\n\n(c)=  \nText (d)= text.\n") == "## Head\n\nText (d)= text.\n"


def test_the_book_shows_them(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    assert build(project, 2), capfd.readouterr()
    said = capfd.readouterr().out
    assert re.search(r"\[2/5\] 01_a-ladder … \d+\.\d s\n", said)
    recorded = {name: values["value"].value for name, values in results.read_book(project.results).items()}
    assert recorded == {"01_a": 2, "01_a-ladder": 4, "01_a-two": 22, "02_b": 2, "03_c": 4}

    html = project.html / "notebooks"
    page = BeautifulSoup((html / "01_a-ladder.html").read_text(), "html.parser").select_one("article")
    assert page is not None
    assert page.h1
    assert page.h1.get_text().startswith("Chapter 01_a: the ladder")
    note = page.select_one("h1 + blockquote")
    assert note is not None
    assert "This is the chapter for measurements = data/own.csv." in " ".join(note.get_text().split())
    assert [a["href"] for a in note.select("a")] == ["01_a.html"]
    text = " ".join(page.get_text().split())
    assert "It is 4.5 in data/own.csv, by default only –; see there" in text
    assert "Of the other chapter: 7.5." in text
    assert (html / "01_a-ladder" / "data.csv").read_text() == "value\n4\n"
    two = BeautifulSoup((html / "01_a-two.html").read_text(), "html.parser")
    assert 'datasets = ["x", "y"]' in " ".join(two.get_text().split())

    own = " ".join(BeautifulSoup((html / "01_a.html").read_text(), "html.parser").get_text().split())
    assert "It is 2.5 in data/a.csv, by default only 1.5; see there" in own
    other = BeautifulSoup((html / "02_b.html").read_text(), "html.parser")
    assert "Here 2.5, there 4.5." in " ".join(other.get_text().split())
    nested = other.select("nav li:has(> a[href='01_a.html']) > ul a, nav li:has(> a[href='01_a.html']) > details a")
    assert [(a["href"], a.get_text().strip()) for a in nested][:2] == [
        ("01_a-ladder.html", "The ladder"),
        ("01_a-two.html", "Two datasets"),
    ]
    assert build(project, 2)
    assert "01_a" not in capfd.readouterr().out.partition("  01_a ")[0], "a second build executes nothing"


def test_they_are_listed(project: Project) -> None:
    listed = CliRunner().invoke(app, ["--root", str(project.root), "chapters"]).stdout
    assert '    companion page 01_a-ladder (the ladder): measurements = "data/own.csv"\n' in listed
    both = json.loads(CliRunner().invoke(app, ["--root", str(project.root), "chapters", "--json"]).stdout)[:2]
    assert [each.get("companion_of") for each in both] == [None, "01_a"]
    assert [each["parameters"][0]["default"] for each in both] == ["data/a.csv", "data/own.csv"]


def test_one_is_run_alone(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(project.root)
    arguments = ["--root", str(project.root), "run", "01_a-ladder", "-p", "datasets=x", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done
    written = results.read_chapter(tmp_path / "out" / "results.json")
    assert (written.chapter, written.values["value"].value) == ("01_a-ladder", 14)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "01_a-ladder",
        "01_a-ladder.html",
        "01_a-ladder.ipynb",
        "results.json",
    ]
    page = BeautifulSoup((tmp_path / "out" / "01_a-ladder.html").read_text(), "html.parser")
    text = " ".join(page.get_text().split())
    assert "Chapter 01_a: the ladder" in text
    assert 'This is the chapter for measurements = data/own.csv, datasets = ["x"]. Figures' in text
