"""Authors and addresses, set in one place: the pages name them, and buttons lead to what is there."""

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

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
    config.write_text(yaml.safe_dump(citation.configuration(facts)))
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
    assert "By Ada Lovelace, The Noether group" in footer
    assert "2026, Ada Lovelace, The Noether group" in footer


def test_the_pages_name_both_licences_and_the_first_how_to_cite(book: Path) -> None:
    soup = BeautifulSoup((book / "book" / "welcome.html").read_text(), "html.parser")
    licences = [link["href"] for link in soup.select("a[rel=license]")]
    assert [Path(each).stem for each in licences] == ["CC-BY-4.0", "MIT"]
    said = soup.select_one(".highlight-bibtex pre").get_text().strip()
    assert f"```bibtex\n{said}\n```" in citation.bibtex_box(Project())


# ── What others show of a link, and search engines read


def _meta(page: Path) -> dict[str, str]:
    """What the head of a page says, by its names."""
    tags = BeautifulSoup(page.read_text().partition("</head>")[0], "html.parser").select("meta[property], meta[name]")
    return {str(tag.get("property") or tag["name"]): str(tag["content"]) for tag in tags}


def test_every_page_says_what_others_show_of_a_link(book: Path, addressed: Path, pages: list[str]) -> None:
    for page in pages:
        tags = _meta(book / page)
        assert tags["og:title"] in (book / page).read_text().partition("</title>")[0], page
        assert tags["og:description"] == tags["description"], page
        assert "og:image" not in tags, page
    for name in ("notebooks/holds", "notebooks/see", "book/welcome"):
        assert _meta(addressed / f"{name}.html")["og:url"] == f"{BOOK}{name}.html"


def test_the_map_lists_every_page_by_its_address(book: Path, addressed: Path) -> None:
    assert not (book / "sitemap.xml").exists(), "the book has no address yet"
    space = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
    tree = ElementTree.parse(addressed / "sitemap.xml")  # noqa: S314  # our own
    listed = [each.text for each in tree.iter(f"{space}loc")]
    texts = (path.read_text() for path in addressed.glob("*/*.html"))
    named = [BeautifulSoup(text, "html.parser").select_one("link[rel=canonical]")["href"] for text in texts]
    assert len(listed) == 5
    assert sorted(listed) == sorted(named)
