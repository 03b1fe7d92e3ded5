"""CITATION.cff: a valid file, the BibTeX that pages show of it, and what is wrong with it by name."""

import pytest
import yaml
from pybtex.database import parse_string

from companion.project import ROOT, Project
from companion.render.citation import bibtex_box, read_citation
from rbp.errors import DataError

ADA = {"given-names": "Ada", "family-names": "Lovelace", "orcid": "https://orcid.org/0000-0002-1825-0097"}


def project(folder, **changes):
    """A folder with the real file, but for these entries."""
    entries = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    entries |= {name.replace("_", "-"): value for name, value in changes.items()}
    (folder / "CITATION.cff").write_text(yaml.safe_dump(entries))
    return Project(folder)


def test_the_box_is_bibtex_of_the_book_and_the_paper(tmp_path):
    authors = [ADA, {"family-names": "Noether"}, {"name": "The Bourbaki group"}]
    box = bibtex_box(project(tmp_path, authors=authors, url="https://somebody.example/"))
    text = box.split("```")[1]
    entries = parse_string(text.removeprefix("bibtex"), "bibtex").entries
    book, paper = entries["doesrankscale"], entries["yue2025"]
    assert [str(each) for each in book.persons["author"]] == ["Lovelace, Ada", "Noether", "{The Bourbaki group}"]
    assert book.fields["url"] == "https://somebody.example/"
    assert paper.fields["eprint"] == "2510.20387"


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no CITATION.cff.*\n.*git checkout -- CITATION.cff"):
        read_citation(Project(tmp_path))
    with pytest.raises(DataError, match="license is missing"):
        read_citation(project(tmp_path, license=""))
    for text in ("a: [", "[]", "", "\0"):
        (tmp_path / "CITATION.cff").write_text(text)
        with pytest.raises(DataError, match=r"CITATION\.cff"):
            read_citation(Project(tmp_path))
