"""Authors and addresses, set in one place: the pages name them, and buttons lead to what is there."""

import re
import shutil
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup

from companion import citation
from companion.project import ROOT, Project
from companion.site import jupyter_book

REPOSITORY, BOOK = "https://github.com/somebody/companion", "https://somebody.example/companion/"
AUTHORS = [{"given-names": "Ada", "family-names": "Lovelace"}, {"name": "The Noether group"}]


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose CITATION.cff has made-up authors and addresses."""
    project = Project(tmp_path_factory.mktemp("facts"))
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    said |= {"authors": AUTHORS, "repository-code": REPOSITORY, "url": BOOK}
    (project.root / "CITATION.cff").write_text(yaml.safe_dump(said))
    shutil.copy(ROOT / "_config.yml", project.root)
    return project


@pytest.fixture(scope="module")
def addressed(book: Path, facts: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, BeautifulSoup]:
    """Four pages of the book with these facts, parsed, by their names: each has the same buttons."""
    folder = tmp_path_factory.mktemp("addressed")
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


def _buttons(page: BeautifulSoup) -> dict[str, str]:
    """Where the buttons of a page lead, by what is on them."""
    links = page.select_one(".article-header-buttons").select("a[href^=http]")
    return {link.get_text(strip=True): str(link["href"]) for link in links}


def _meta(page: BeautifulSoup) -> dict[str, str]:
    """What the head of a page says, by its names."""
    tags = page.select("head meta[property], head meta[name]")
    return {str(tag.get("property") or tag["name"]): str(tag["content"]) for tag in tags}


def test_without_an_address_nothing_leads_to_one(book: Path, soups: dict[str, BeautifulSoup]) -> None:
    assert not (book / "sitemap.xml").exists()
    for page, soup in soups.items():
        assert _buttons(soup) == {}, page
        text = (book / page).read_text()
        assert not re.search(r'rel="canonical"|mybinder|colab\.research|/issues/new', text), page


def test_the_buttons_of_a_chapter(addressed: dict[str, BeautifulSoup]) -> None:
    title = "Issue%20on%20page%20%2Fnotebooks/holds.html"
    assert _buttons(addressed["holds"]) == {
        "Repository": REPOSITORY,
        "Show source": f"{REPOSITORY}/blob/main/notebooks/holds.ipynb?plain=1",
        "Open issue": f"{REPOSITORY}/issues/new?title={title}&body=Your%20issue%20content%20here.",
        "Binder": "https://mybinder.org/v2/gh/somebody/companion/main?urlpath=tree/notebooks/holds.ipynb",
    }


def test_whatever_a_page_says_is_its_source_is_there(addressed: dict[str, BeautifulSoup]) -> None:
    assert "Show source" not in _buttons(addressed["made"]), "the build makes it, and keeps it nowhere"
    for page in ("holds", "use", "welcome"):
        path = _buttons(addressed[page])["Show source"].removeprefix(f"{REPOSITORY}/blob/main/")
        assert (ROOT / path.removesuffix("?plain=1")).is_file(), path


def test_the_pages_name_the_authors_and_their_own_address(addressed: dict[str, BeautifulSoup]) -> None:
    pages = {"holds": "notebooks/holds", "use": "book/use", "made": "book/made", "welcome": "book/welcome"}
    for page, path in pages.items():
        assert addressed[page].select_one("link[rel=canonical]")["href"] == f"{BOOK}{path}.html"
        assert page == "made" or _meta(addressed[page])["og:url"] == f"{BOOK}{path}.html"
    listed = [each.get_text() for each in addressed["sitemap"].select("loc")]
    assert sorted(listed) == sorted(f"{BOOK}{path}.html" for path in pages.values())
    footer = " ".join(addressed["holds"].select_one("footer.bd-footer-content").get_text(" ").split())
    assert "By Ada Lovelace, The Noether group" in footer
    assert "2026, Ada Lovelace, The Noether group" in footer
