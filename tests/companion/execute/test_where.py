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
page.record({"one": 1,
             "two": sums.twice(1)})
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

    def recorded_at(text):
        lines = enumerate(notebook.read_text().splitlines(), 1)
        return f"notebooks/ledger.ipynb:{next(i for i, each in lines if text in each)}  records it"

    assert makers(project, "ledger", "total") == [
        "src/arithmetic/sums.py:6  totals",
        recorded_at("page.record(values)"),
    ]
    assert makers(project, "ledger", "two") == ["src/arithmetic/sums.py:2  twice", recorded_at("page.record({")]
    notebook.write_text(notebook.read_text().replace("A sentence.", 'A sentence.\\n",\n    "Another.'))
    (package / "sums.py").write_text("\n" + SUMS)
    assert makers(project, "ledger", "total") == [
        "src/arithmetic/sums.py:7  totals",
        recorded_at("page.record(values)"),
    ]


def test_every_use_of_a_value_of_the_book_is_found():
    project = Project()
    found = uses(project, "data", "table1.agree", results.read_book(project.expected))
    places = [(use.kind, *use.place.split(":")) for use in found]
    for _, file, number in places:
        assert "table1.agree" in (project.root / file).read_text().splitlines()[int(number) - 1], file
    texts = {path.name: path.read_text() for path in project.notebooks.glob("*.ipynb")}
    named = sum(text.count("{value}`data::table1.agree:") for text in texts.values())
    named += texts["data.ipynb"].count("{value}`table1.agree:")
    assert [kind for kind, *_ in places].count("sentence") == named > 1
    assert {kind for kind, *_ in places} == {"sentence", "claim", "report"}
    assert "107" in next(use.text for use in found if use.kind == "report")


def test_the_command_names_the_nearest_value():
    said = here("where", "data::table1.agree").stdout
    assert said.startswith("data::table1.agree = 107\n")
    assert "claim     src/companion/ledger/claims.toml:" in said
    refused(here("where", "data::table1.agre"), "Did you mean data::table1.agree")
