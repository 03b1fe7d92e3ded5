"""Who names a value, by the book's own files."""

from commands import here, refused

from companion.execute import results
from companion.execute.where import find_uses
from companion.project import Project


def test_the_uses_of_a_value_of_the_book_are_found():
    project = Project()
    found = find_uses(project, "data", "table1.agree", results.read_book(project.expected))
    for use in found:
        file, number = use.place.split(":")
        assert "table1.agree" in (project.root / file).read_text().splitlines()[int(number) - 1], file
    assert {use.kind for use in found} == {"sentence", "claim", "report"}
    refused(here("where", "data::table1.agre"), "Did you mean data::table1.agree")
