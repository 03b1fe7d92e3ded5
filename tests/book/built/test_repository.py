"""Authors and addresses, set in one place: the pages name them, and buttons lead to what is there."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup

from rbp.book import record
from rbp.book.site import jupyter_book
from rbp.core.paths import ROOT, Project

REPOSITORY, BOOK = "https://github.com/somebody/companion", "https://somebody.example/companion/"
AUTHORS = """
[[authors]]
given = "Ada"
family = "Lovelace"
[[authors]]
family = "Noether"
"""


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose record has made-up authors and addresses."""
    project = Project(tmp_path_factory.mktemp("facts"))
    text = (ROOT / "record.toml").read_text()
    for fact, value in (("repository", REPOSITORY), ("book", BOOK)):
        assert f'\n{fact} = ""' in text
        text = text.replace(f'\n{fact} = ""', f'\n{fact} = "{value}"')
    (project.root / "record.toml").write_text(text + AUTHORS)
    shutil.copy(ROOT / "_config.yml", project.root)
    return project


@pytest.fixture(scope="module")
def addressed(book: Path, facts: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five pages of the book with these facts: each has the same buttons."""
    folder = tmp_path_factory.mktemp("addressed")
    staged, source = Project().build / "source", folder / "source"
    shutil.copytree(staged / "book", source / "book")
    (source / "notebooks").mkdir()
    for name in ("holds", "see"):
        shutil.copy(staged / "notebooks" / f"{name}.ipynb", source / "notebooks")
    listed = ("notebooks/holds", "notebooks/see", "book/use", "book/made")
    toc = "format: jb-book\nroot: book/welcome\nchapters:\n" + "".join(f"  - file: {page}\n" for page in listed)
    (source / "_toc.yml").write_text(toc)
    config = folder / "config.yml"
    config.write_text(yaml.safe_dump(record.configuration(facts)))
    return jupyter_book(source, config, folder / "built", strict=False)


def _buttons(page: Path) -> dict[str, str]:
    """Where the buttons of a page lead, by what stands on them."""
    links = BeautifulSoup(page.read_text(), "html.parser").select(".article-header-buttons a[href^=http]")
    return {link.get_text(strip=True): str(link["href"]) for link in links}


def test_without_an_address_nothing_leads_to_one(book: Path) -> None:
    for page in book.glob("*/*.html"):
        text = page.read_text()
        assert _buttons(page) == {}, page
        assert 'rel="canonical"' not in text, page
        assert not re.search(r"mybinder|colab\.research|/issues/new", text), page


def test_the_buttons_of_a_chapter(addressed: Path) -> None:
    found = _buttons(addressed / "notebooks" / "holds.html")
    title = "Issue%20on%20page%20%2Fnotebooks/holds.html"
    assert found == {
        "Repository": REPOSITORY,
        "Show source": f"{REPOSITORY}/blob/main/notebooks/holds.ipynb?plain=1",
        "Open issue": f"{REPOSITORY}/issues/new?title={title}&body=Your%20issue%20content%20here.",
        "Binder": "https://mybinder.org/v2/gh/somebody/companion/main?urlpath=tree/notebooks/holds.ipynb",
    }


def test_whatever_a_page_says_is_its_source_is_there(addressed: Path) -> None:
    sources = {page.stem: _buttons(page).get("Show source") for page in addressed.glob("*/*.html")}
    assert sources.pop("made") is None, "the build makes it, and keeps it nowhere"
    assert len(sources) == 4
    for page, address in sources.items():
        assert address, page
        path = address.removeprefix(f"{REPOSITORY}/blob/main/").removesuffix("?plain=1")
        assert (ROOT / path).is_file(), path


def test_the_pages_name_the_authors_and_their_own_address(addressed: Path) -> None:
    soup = BeautifulSoup((addressed / "notebooks" / "holds.html").read_text(), "html.parser")
    assert soup.select_one("link[rel=canonical]")["href"] == f"{BOOK}notebooks/holds.html"
    footer = " ".join(soup.select_one("footer.bd-footer-content").get_text(" ").split())
    assert "By Ada Lovelace, Noether" in footer
    assert "2026, Ada Lovelace, Noether" in footer


def test_without_authors_the_pages_leave_them_out(book: Path) -> None:
    soup = BeautifulSoup((book / "notebooks" / "holds.html").read_text(), "html.parser")
    assert soup.select_one(".component-author") is None
    licences = [link["href"] for link in soup.select("a[rel=license]")]
    assert [Path(each).stem for each in licences] == ["CC-BY-4.0", "MIT"]


def test_the_first_page_says_how_to_cite(book: Path) -> None:
    soup = BeautifulSoup((book / "book" / "welcome.html").read_text(), "html.parser")
    said = soup.select_one(".highlight-bibtex pre").get_text().strip()
    assert f"```bibtex\n{said}\n```" in record.citation(Project())
    assert json.dumps(record.NAMELESS)[1:-1] in said
