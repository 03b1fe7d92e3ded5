"""The report: values by their keys, the same bytes each time; and what is wrong is said, with its line."""

import pytest
from commands import here, refused
from pypdf import PdfReader

from companion import report
from companion.execute import results
from companion.execute.results import recorded
from companion.project import Project
from companion.render import site
from companion.render.build import sources_of
from rbp.io import write_json

HEAD = '#set document(title: "Made up", date: datetime(year: 2026, month: 1, day: 2))\n'
AWKWARD = r'12. #"a" \ $ * _ [x] @b <c> // /* -'
VALUES = {"laws": {"alpha": recorded("alpha", -0.123456), "n": recorded("n", 7), "what": recorded("what", AWKWARD)}}
CITATION = "title: Made up\nauthors:\n- name: Nobody\nversion: 0.1.0\ndate-released: 2026-01-02\nlicense: MIT\n"


@pytest.fixture
def project(tmp_path):
    """A book of one chapter that is a title, with results, and no report yet."""
    made = Project(tmp_path / "book with a space")
    chapter = made.chapters / "laws"
    for folder in (made.book, made.notebooks, chapter / "laws"):
        folder.mkdir(parents=True)
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": "# Laws"}
    for folder in (made.notebooks, chapter):
        write_json(folder / "laws.ipynb", {"cells": [title], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    results.write_chapter(chapter / "results.json", results.ChapterResults("laws", VALUES["laws"]))
    write_json(made.inputs / "laws.json", sources_of(made, "laws"))
    (made.root / "_config.yml").write_text("title: Laws\n")
    (made.root / "CITATION.cff").write_text(CITATION)
    results.write_book(made.results, VALUES)
    return made


def written(project, text):
    (project.book / report.SOURCE).write_text(HEAD + text, encoding="utf-8")
    return project


def shown(pdf):
    return " ".join(" ".join(page.extract_text() for page in PdfReader(pdf).pages).split())


def test_values_stand_there_as_they_are(project):
    text = "{value}`laws::what`\n\nFrom {value}`laws::alpha:.2f`.Then\n"
    text += "{value}`laws::n`. is no list, {value}`laws::n:words`(a) no call.\n"
    assert shown(report.make(written(project, text))) == f"{AWKWARD} From −0.12.Then 7. is no list, seven(a) no call."


def test_all_that_nobody_recorded_is_named_with_its_line_and_nothing_is_written(project):
    written(project, "{value}`laws::n`\n{value}`laws::beta:.3f` and\n{value}`other::n` {value}`laws::n:of all`\n")
    places = [f"{n} (book/report.typ, line {at})" for n, at in (("laws::beta", 3), ("other::n", 4), ("laws::all", 4))]
    refused(here("report", root=project.root), *places, "rbp book")
    assert not site.report_file(project).exists()


def test_verify_finds_a_report_that_shows_other_numbers(project):
    table = project.chapters / "laws" / "laws" / "fits.csv"

    def record(n, alpha):
        table.write_text(f"alpha\n{alpha}\n")
        checksum = recorded("fits.csv", f"of {alpha}", results.CHECKSUM)
        for path in (project.results, project.expected):
            results.write_book(path, {"laws": VALUES["laws"] | {"n": recorded("n", n), "fits.csv": checksum}})

    shows = """#let data(name) = csv("/_build/chapters/laws/laws/" + name.split("::").last() + ".csv")
#table(..data("laws::fits").flatten()) {value}`laws::n`"""
    record(7, 0.12)
    root = written(project, shows).root
    assert "0.12" in shown(report.make(project))
    assert here("verify", root=root).returncode == 0
    record(8, 0.13)
    old = here("verify", root=root)
    assert old.returncode == 1
    assert "rbp report): moved   laws n: 7 -> 8" in old.stdout
    assert "rbp report): moved   laws fits.csv: its contents differ" in old.stdout
    report.make(project)
    assert here("verify", root=root).returncode == 0
