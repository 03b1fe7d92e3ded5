"""Every page as it is written: figures, links, downloads and titles."""

import io
import re
import sys
from urllib.parse import unquote, urldefrag, urljoin

import pandas as pd
from bs4 import BeautifulSoup

from companion.execute.prose import chapter_numbers
from companion.project import ROOT, Project

NUMBERS = {f"notebooks/{name}.html": number for name, number in chapter_numbers(Project()).items()}


def test_every_figure_says_what_it_shows(soups):
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


def test_links_lead_somewhere_and_downloads_are_whole(book, soups):
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


def test_each_claim_and_figure_has_a_card_that_leads_to_it(book, soups):
    """At an address that does not name its page's place in the book."""
    led_to = set()
    for card in [*book.glob("claims/*.html"), *book.glob("figures/*.html")]:
        soup = BeautifulSoup(card.read_text(encoding="utf-8"), "html.parser")
        page, place = urldefrag(soup.select_one("meta[http-equiv=refresh]")["content"].partition("url=../")[2])
        assert soups[page].find(id=place), card
        assert soup.select_one("meta[property='og:title']")["content"], card
        assert len(soup.select_one("meta[property='og:description']")["content"]) > 10, card
        led_to.add((page, place))
    for page, soup in soups.items():
        if page.startswith("notebooks/"):
            shown = {(page, each["id"]) for each in soup.select("figure.rbp-figure, .rbp-claim")}
            assert shown <= led_to, page


def test_each_page_has_a_title_and_a_description(soups):
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


def test_no_path_of_the_machine_that_built_it_is_published(book):
    """In no file: a warning of a library, say, has one."""
    paths = "|".join(map(re.escape, {f"{ROOT}/", f"{sys.prefix}/", "/site-packages/", "/dist-packages/"}))
    named = re.compile(rf"{paths}|/(home|Users)/\w+/|/r[o]ot/".encode())
    found = {path: named.search(path.read_bytes()) for path in [*book.rglob("*"), Project().results] if path.is_file()}
    assert {str(path.relative_to(ROOT)): match[0] for path, match in found.items() if match} == {}
