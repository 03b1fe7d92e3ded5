"""Who makes a value, by a chapter that is run here, and who names one, by the book's own files."""

import pytest
from commands import here, refused
from mini import write_chapter

from companion.execute import results
from companion.execute.where import find_makers, find_uses
from companion.project import Project
from companion.render.build import run_chapter
from rbp import provenance


@pytest.mark.usefixtures("without_kernel")
def test_a_value_is_made_by_the_function_that_the_recording_statement_used(tmp_path, monkeypatch):
    project = Project(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "arithmetic.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path / "src")
    cell = 'from companion.execute.page import Page\npage = Page("ledger")\nfrom arithmetic import double\n'
    cell += 'value = double(2)\npage.record({"value": value})\npage.close()'
    notebook = write_chapter(project, "ledger", cell, close=False)
    with provenance.recording():
        assert run_chapter(project, "ledger")
    line = next(i for i, text in enumerate(notebook.read_text().splitlines(), 1) if "page.record(" in text)
    recorded = f"notebooks/ledger.ipynb:{line}  records it"
    assert find_makers(project, "ledger", "value") == ["src/arithmetic.py:1  double", recorded]


def test_the_uses_of_a_value_of_the_book_are_found():
    project = Project()
    found = find_uses(project, "data", "table1.agree", results.read_book(project.expected))
    for use in found:
        file, number = use.place.split(":")
        assert "table1.agree" in (project.root / file).read_text().splitlines()[int(number) - 1], file
    assert {use.kind for use in found} == {"sentence", "claim", "report"}
    refused(here("where", "data::table1.agre"), "Did you mean data::table1.agree")
