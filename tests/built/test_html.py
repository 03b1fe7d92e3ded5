"""Every page as it is written: figures, links, downloads, titles, citations, and how long the book is."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pandas as pd
from bs4 import BeautifulSoup, NavigableString, Tag

from companion.project import Project
from companion.prose import chapter_numbers

NUMBERS = {f"notebooks/{name}.html": number for name, number in chapter_numbers(Project()).items()}


def test_every_figure_says_what_it_shows(soups: dict[str, BeautifulSoup]) -> None:
    figures = 0
    for page, soup in soups.items():
        for figure in soup.select("figure.rbp-figure"):
            figures += 1
            assert len(figure.select_one("figcaption").get_text(strip=True)) > 40, (page, figure["id"])
            for picture in figure.select("svg[role=img]"):
                assert len(picture["aria-label"]) > 20, (page, figure["id"])
        ids = [element["id"] for element in soup.select("[id]")]
        assert len(ids) == len(set(ids)), (page, sorted({each for each in ids if ids.count(each) > 1}))
    assert figures >= 20


def test_links_lead_somewhere_and_downloads_are_whole(book: Path, soups: dict[str, BeautifulSoup]) -> None:
    ids = {page: {element["id"] for element in soup.select("[id]")} for page, soup in soups.items()}
    downloads = 0
    for page, soup in soups.items():
        for link in soup.select("a[href]"):
            href = link["href"]
            if re.match(r"[a-z]+:", href) or href == "#":
                continue
            path, anchor = urldefrag(unquote(urljoin(page, href)))
            target = book / path
            assert target.is_file(), (page, href)
            if anchor and path.endswith(".html"):
                assert anchor in ids[path], (page, href)
            if link.has_attr("download") and path.endswith(".csv"):
                downloads += 1
                assert len(pd.read_csv(io.BytesIO(target.read_bytes()))) > 0, href
            if link.has_attr("download") and path.endswith(".svg"):
                assert target.read_bytes().startswith(b"<?xml"), href
    assert downloads >= 20


def test_every_icon_is_drawn(book: Path, soups: dict[str, BeautifulSoup]) -> None:
    style = (book / "_static" / "styles" / "pydata-sphinx-theme.css").read_text(encoding="utf-8")
    shown = {each for soup in soups.values() for icon in soup.select("[class*='fa-']") for each in icon["class"]}
    names = {name for name in shown if name.startswith("fa-")} - {"fa-solid", "fa-brands", "fa-regular", "fa-lg"}
    assert "fa-magnifying-glass" in names
    assert {name for name in names if f".{name}{{--icon:url(" not in style} == set()


def test_each_page_has_a_title_and_a_description(soups: dict[str, BeautifulSoup]) -> None:
    for page, soup in soups.items():
        description = soup.select_one("meta[name=description]")["content"].strip()
        assert description, page
        assert page not in NUMBERS or not description.endswith("…"), f"{page}: too long a first sentence"
        number = f"{NUMBERS[page]}. " if page in NUMBERS else ""
        title, heading = soup.select_one("title").get_text(), soup.select_one("main h1").get_text()
        assert title.startswith(number), page
        assert heading.startswith(number), page
    titles = [soup.select_one("title").get_text() for soup in soups.values()]
    assert len(set(titles)) == len(titles)


def test_figures_and_tables_are_numbered_in_their_order(soups: dict[str, BeautifulSoup]) -> None:
    for page, number in NUMBERS.items():
        for word, marked in (("Figure", ".rbp-figure:not(.rbp-tabled)"), ("Table", ".rbp-tabled")):
            shown = [each.select_one(".caption-number") for each in soups[page].select(f"figure{marked}")]
            expected = [f"{word} {number}.{i + 1}" for i in range(len(shown))]
            assert [each and each.get_text().strip() for each in shown] == expected, page


RELATED = "book/related.html"


def test_every_citation_leads_to_its_reference_among_related_work(book: Path, soups: dict[str, BeautifulSoup]) -> None:
    references = {str(each["id"]) for each in soups[RELATED].select(".citation[id]")}
    assert references
    cited = set()
    for page, soup in soups.items():
        for citation in soup.select(".bibtex-citation"):
            links = [str(link["href"]).partition("#") for link in citation.select("a[href]")]
            assert links, f"{page}: a citation without a link"
            for target, _, anchor in links:
                assert ((book / page).parent / target).resolve() == (book / RELATED).resolve() or not target, page
                assert target or page == RELATED, page
                cited.add(anchor)
    assert cited == references


MOST_WORDS, MOST_NUMBERS = 200, 18
"""What an answer may hold."""

NO_PROSE = {"pre", "code", "script", "style", "table", "math", "svg", "above-input"}
NO_PROSE |= {"rbp-rerun", "rbp-code", "rbp-downloads", "headerlink"}
"""Elements and classes that hold no words to read; "above-input" is a folded solution, with its button's words."""

NUMBER = re.compile(r"(?<![\w./-])\d+(?:[.,]\d+)*")
"""A number by itself, such as 0.98 and 30,000; not that of a name, such as GPT-2."""


def _texts(part: Tag) -> Iterator[str]:
    for child in part.children:
        if isinstance(child, Tag):
            if child.name not in NO_PROSE and not NO_PROSE & set(child.get("class", ())):
                yield from _texts(child)
        elif type(child) is NavigableString:  # and no comment
            yield child


def _words(part: Tag) -> list[str]:
    """The words of a part of a page: its prose and captions, folded or not, without code, tables and formulas."""
    return [word for word in "".join(_texts(part)).split() if re.search(r"\w", word)]


def test_answers_are_short(soups: dict[str, BeautifulSoup]) -> None:
    for page in NUMBERS:
        words = _words(soups[page].select_one("article section#the-answer"))[2:]  # without the heading's
        assert 0 < len(words) <= MOST_WORDS, page
        assert len(NUMBER.findall(" ".join(words))) <= MOST_NUMBERS, page
