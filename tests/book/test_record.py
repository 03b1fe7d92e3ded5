"""The facts of the record, in one place, and what is written from them."""

import shutil
from pathlib import Path

import pytest
from pybtex.database import parse_string

from rbp.book import record
from rbp.core.errors import DataError
from rbp.core.paths import ROOT, Project

TWO = """
[[authors]]
given = "Ada"
family = "Lovelace"
orcid = "0000-0002-1825-0097"
affiliation = "Works"

[[authors]]
family = "Noether"
"""


def project(folder: Path, text: str = "", **facts: str) -> Project:
    """A folder with the record's own facts, but for those that are given, and with more text at its end."""
    whole = (ROOT / "record.toml").read_text()
    for name, value in facts.items():
        assert f'\n{name} = "' in whole
        whole = "\n".join(f"{name} = {value}" if line.startswith(f"{name} = ") else line for line in whole.split("\n"))
    (folder / "record.toml").write_text(whole + text)
    (folder / "book").mkdir()
    shutil.copy(ROOT / "book" / "references.bib", folder / "book")
    return Project(folder)


def test_the_citation_is_bibtex_with_authors_and_address(tmp_path: Path) -> None:
    said = record.citation(project(tmp_path, TWO, book='"https://somebody.example/"'))
    entries = parse_string(said.split("```")[1].removeprefix("bibtex"), "bibtex").entries
    own, paper = entries["doesrankscale"], entries["yue2025relative"]
    assert [str(each) for each in own.persons["author"]] == ["Lovelace, Ada", "Noether"]
    assert own.fields["url"] == "https://somebody.example/"
    assert own.fields["title"] == "Does rank scale? A reproducible companion to the Relative-Based Scaling Law"
    assert paper.fields["eprint"] == "2510.20387"
    assert [str(each) for each in paper.persons["author"]][0::5] == ["Yue, Baoqing", "Liu, Yiqun"]
    assert max(map(len, said.split("```")[1].split("\n"))) <= 45, "a phone shows whole lines"


def test_without_authors_and_address_the_citation_leaves_them_out(tmp_path: Path) -> None:
    said = record.citation(project(tmp_path))
    own = parse_string(said.split("```")[1].removeprefix("bibtex"), "bibtex").entries["doesrankscale"]
    assert [str(each) for each in own.persons["author"]] == ["{The companion's authors}"]
    assert "url" not in own.fields


@pytest.mark.parametrize(
    ("facts", "text", "named"),
    [
        ({"repository": '"github.com/a/b"'}, "", "repository"),
        ({"repository": '"https://codeberg.org/a/b"'}, "", "repository"),
        ({"book": '"https://a.example"'}, "", "book"),
        ({"title": '""'}, "", "title"),
        ({"title": "3"}, "", "title"),
        ({}, '[[authors]]\ngiven = "Ada"\n', "authors.0.family"),
        ({}, '[[authors]]\nfamily = "L"\norcid = "1"\n', "authors.0.orcid"),
        ({}, '[other]\na = "b"\n', "other"),
        ({}, "[", "TOML"),
        ({"examines": '"1.2"'}, "", "eprint 1.2"),
    ],
)
def test_a_fact_that_cannot_be_is_named(tmp_path: Path, facts: dict[str, str], text: str, named: str) -> None:
    with pytest.raises(DataError, match=named):
        record.citation(project(tmp_path, text, **facts))


def test_a_record_that_is_missing_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no record.toml.*\n.*git checkout -- record.toml"):
        record.facts(Project(tmp_path))
