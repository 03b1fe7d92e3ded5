"""Who makes a value and who names it: by a chapter run here, and by the book's own files."""

import pytest
from commands import here, refused
from mini import write_chapter

from companion.execute import results
from companion.execute.where import makers, uses
from companion.project import Project
from companion.render.build import run_chapter
from rbp import provenance

CHAPTER = """
from companion.execute.page import Page
from arithmetic import sums

page = Page("ledger")
values = sums.totals(2)
page.record(values)
page.close()
"""
SUMS = """
def twice(x):
    return 2 * x


def totals(x):
    return {"total": twice(x)}
"""


@pytest.mark.usefixtures("without_kernel")
def test_the_statement_that_records_a_value_and_the_function_that_makes_it(tmp_path, monkeypatch):
    project = Project(tmp_path)
    package = tmp_path / "src" / "arithmetic"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sums.py").write_text(SUMS)
    monkeypatch.syspath_prepend(tmp_path / "src")
    notebook = write_chapter(project, "ledger", "%%md A sentence.", CHAPTER, close=False)
    assert makers(project, "ledger", "total") == []
    with provenance.recording():
        assert run_chapter(project, "ledger")
    lines = notebook.read_text().splitlines()
    recorded_at = next(i for i, line in enumerate(lines, 1) if "page.record(values)" in line)
    assert makers(project, "ledger", "total") == [
        "src/arithmetic/sums.py:6  totals",
        f"notebooks/ledger.ipynb:{recorded_at}  records it",
    ]


def test_the_uses_of_a_value_of_the_book_are_found():
    project = Project()
    found = uses(project, "data", "table1.agree", results.read_book(project.expected))
    for use in found:
        file, number = use.place.split(":")
        assert "table1.agree" in (project.root / file).read_text().splitlines()[int(number) - 1], file
    assert {use.kind for use in found} == {"sentence", "claim", "report"}
    refused(here("where", "data::table1.agre"), "Did you mean data::table1.agree")
