"""Addresses, set in one place: buttons lead to what is there."""

import re
import shutil

import pytest
import yaml
from bs4 import BeautifulSoup

from companion import citation
from companion.project import ROOT, Project
from companion.site import jupyter_book

REPOSITORY, BOOK = "https://github.com/somebody/companion", "https://somebody.example/companion/"


@pytest.fixture(scope="module")
def addressed(book, tmp_path_factory):
    """Four pages of the book, parsed, by their names, where CITATION.cff has made-up addresses."""
    facts, folder = Project(tmp_path_factory.mktemp("facts")), tmp_path_factory.mktemp("addressed")
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text()) | {"repository-code": REPOSITORY, "url": BOOK}
    (facts.root / "CITATION.cff").write_text(yaml.safe_dump(said))
    shutil.copy(ROOT / "_config.yml", facts.root)
    staged, source = Project().build / "source", folder / "source"
    shutil.copytree(staged / "book", source / "book")
    (source / "notebooks").mkdir()
    shutil.copy(staged / "notebooks" / "holds.ipynb", source / "notebooks")
    toc = "format: jb-book\nroot: book/welcome\nchapters:\n"
    listed = ("notebooks/holds", "book/use", "book/made")
    (source / "_toc.yml").write_text(toc + "".join(f"  - file: {page}\n" for page in listed))
    (folder / "config.yml").write_text(yaml.safe_dump(citation.configuration(facts)))
    built = jupyter_book(source, folder / "config.yml", folder / "built", strict=False)
    texts = {page.stem: page.read_text() for page in (*built.glob("*/*.html"), built / "sitemap.xml")}
    return {name: BeautifulSoup(text, "html.parser") for name, text in texts.items()}


def _buttons(page):
    """Where the buttons of a page lead, by what is on them."""
    links = page.select_one(".article-header-buttons").select("a[href^=http]")
    return {link.get_text(strip=True): str(link["href"]) for link in links}


def test_without_an_address_nothing_leads_to_one(book, soups):
    assert not (book / "sitemap.xml").exists()
    for page, soup in soups.items():
        assert _buttons(soup) == {}, page
        text = (book / page).read_text()
        assert not re.search(r'rel="canonical"|mybinder|colab\.research|/issues/new', text), page


def test_the_buttons_of_a_chapter(addressed):
    title = "Issue%20on%20page%20%2Fnotebooks/holds.html"
    assert _buttons(addressed["holds"]) == {
        "Repository": REPOSITORY,
        "Show source": f"{REPOSITORY}/blob/main/notebooks/holds.ipynb?plain=1",
        "Open issue": f"{REPOSITORY}/issues/new?title={title}&body=Your%20issue%20content%20here.",
        "Binder": "https://mybinder.org/v2/gh/somebody/companion/main?urlpath=tree/notebooks/holds.ipynb",
    }


def test_whatever_a_page_says_is_its_source_is_there(addressed):
    assert "Show source" not in _buttons(addressed["made"]), "the build makes it, and keeps it nowhere"
    for page in ("holds", "use", "welcome"):
        path = _buttons(addressed[page])["Show source"].removeprefix(f"{REPOSITORY}/blob/main/")
        assert (ROOT / path.removesuffix("?plain=1")).is_file(), path
