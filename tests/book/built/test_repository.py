"""Authors and addresses, set in one place: the pages name them, and buttons lead to what is there."""

import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from bs4 import BeautifulSoup
from PIL import Image

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


# ── What others show of a link


def _meta(page: Path) -> dict[str, str]:
    """What the head of a page says, by its names."""
    tags = BeautifulSoup(page.read_text().partition("</head>")[0], "html.parser").select("meta[property], meta[name]")
    return {str(tag.get("property") or tag["name"]): str(tag["content"]) for tag in tags}


def test_every_chapter_has_a_card_which_no_page_loads(book: Path, pages: list[str]) -> None:
    chapters = [Path(page).stem for page in pages if page.startswith("notebooks/")]
    cards = {path.stem: path for path in (book / "cards").iterdir()}
    assert sorted(cards) == sorted([*chapters, "welcome"])
    for card in cards.values():
        with Image.open(card) as picture:
            assert picture.size == (1200, 630)
        assert card.stat().st_size < 80_000
    for page in pages:
        assert "cards/" not in (book / page).read_text().partition("</head>")[2], page


def test_without_an_address_links_show_a_title_and_a_description(book: Path, pages: list[str]) -> None:
    for page in pages:
        said = _meta(book / page)
        assert said["og:description"] == said["description"], page
        assert said["og:title"], page
        assert said["twitter:card"] == "summary"
        assert not {"og:url", "og:image"} & said.keys(), page
    assert not (book / "sitemap.xml").exists()
    first, root = _meta(book / "index.html"), _meta(book / "book" / "welcome.html")
    assert first["og:title"], "the address that is shared most leads on to the first page"
    assert {name: each for name, each in root.items() if ":" in name} == {
        n: each for n, each in first.items() if ":" in n
    }


def test_a_link_to_a_chapter_shows_its_card(addressed: Path) -> None:
    for name, place in (("notebooks/holds", "2. "), ("notebooks/see", "1. "), ("book/welcome", "")):
        page = addressed / f"{name}.html"
        said = _meta(page)
        heading = BeautifulSoup(page.read_text(), "html.parser").select_one("main h1").find(string=True)
        assert said["og:title"].startswith(place)
        assert said["og:title"].endswith(str(heading).strip())
        assert said["og:url"] == f"{BOOK}{name}.html"
        assert said["twitter:card"] == "summary_large_image"
        card = addressed / said["og:image"].removeprefix(BOOK)
        with Image.open(card) as picture:
            assert [str(side) for side in picture.size] == [said["og:image:width"], said["og:image:height"]]
        assert said["description"].removesuffix(" …") in said["og:image:alt"]
    assert "og:image" not in _meta(addressed / "book" / "use.html")


def test_the_map_lists_every_page_by_its_own_address(addressed: Path) -> None:
    space = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
    tree = ElementTree.parse(addressed / "sitemap.xml")  # noqa: S314  # our own
    listed = [each.text for each in tree.iter(f"{space}loc")]
    texts = (path.read_text() for path in addressed.glob("*/*.html"))
    named = [BeautifulSoup(text, "html.parser").select_one("link[rel=canonical]")["href"] for text in texts]
    assert len(listed) == 5
    assert sorted(listed) == sorted(named)
