"""Every page as a reader meets it: on a desktop, on a phone, in the dark, from a file, without a network."""

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Page

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}

Visit = Callable[..., tuple[Page, list[str]]]


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    """Open a page; returns it with a list of what went wrong: requests that left the book, script errors."""
    contexts = []

    def open_page(page: str, viewport: dict[str, int] = DESKTOP, dark: bool = False) -> tuple[Page, list[str]]:
        context = browser.new_context(viewport=viewport, color_scheme="dark" if dark else "light")
        contexts.append(context)
        tab, wrong = context.new_page(), []
        inside = (address + "/", "data:", "blob:", "about:")
        tab.on("request", lambda request: None if request.url.startswith(inside) else wrong.append(request.url))
        tab.on("pageerror", lambda error: wrong.append(f"script error: {error}"))
        tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        tab.goto(f"{address}/{page}")
        tab.wait_for_function("!window.MathJax?.startup || window.MathJax.startup.promise.then(() => true)")
        return tab, wrong

    yield open_page
    for context in contexts:
        context.close()


def test_nothing_is_loaded_from_outside_and_no_script_fails(visit: Visit, pages: list[str]) -> None:
    for page in pages:
        tab, wrong = visit(page)
        assert wrong == [], page
        tab.close()


def test_math_is_typeset_and_no_tex_is_left(visit: Visit, pages: list[str]) -> None:
    typeset = 0
    for page in pages:
        tab, _ = visit(page)
        formulas, done = tab.locator(".math").count(), tab.locator(".math mjx-container").count()
        assert done >= formulas, page
        typeset += done
        text = tab.evaluate(
            "() => { const copy = document.querySelector('main').cloneNode(true);"
            "copy.querySelectorAll('pre, code, script, style, mjx-container').forEach(e => e.remove());"
            "return copy.textContent; }"
        )
        assert not re.search(r"\\[a-zA-Z]{2,}|\$[^$\n]{1,80}\$|\{glue|\bnan\b|\bNone\b", text), page
        tab.close()
    assert typeset > 10


def test_no_page_is_wider_than_a_phone(visit: Visit, pages: list[str]) -> None:
    for page in pages:
        tab, wrong = visit(page, PHONE)
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], page
        assert wrong == [], page
        tab.close()


def _luminance(colour: str) -> float:
    """Relative luminance (WCAG 2) of a CSS colour such as "rgb(18, 18, 18)"."""
    channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_the_ink_of_figures_and_tables_reads_on_the_page(visit: Visit, pages: list[str], dark: bool) -> None:
    looked_at = 0
    for page in (page for page in pages if page.startswith("notebooks/")):
        tab, _ = visit(page, dark=dark)
        background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        for selector in (".rbp-figure svg[role=img]", ".rbp-figure figcaption", ".rbp-table td", ".rbp-verdict"):
            colours = f"[...document.querySelectorAll('{selector}')].map(e => getComputedStyle(e).color)"
            for ink in set(tab.evaluate(colours)):
                assert _contrast(ink, background) >= 4.5, (page, selector, ink, background)
                looked_at += 1
        tab.close()
    assert looked_at >= 20


def test_every_figure_says_what_it_shows(book: Path, pages: list[str]) -> None:
    figures = 0
    for page in pages:
        soup = BeautifulSoup((book / page).read_text(encoding="utf-8"), "html.parser")
        for figure in soup.select("figure.rbp-figure"):
            figures += 1
            assert len(figure.select_one("figcaption").get_text(strip=True)) > 40, (page, figure["id"])
            for picture in figure.select("svg[role=img], .rbp-plotly"):
                assert len(picture["aria-label"]) > 20, (page, figure["id"])
        ids = [element["id"] for element in soup.select("[id]")]
        assert len(ids) == len(set(ids)), (page, sorted({each for each in ids if ids.count(each) > 1}))
    assert figures >= 20


def test_links_lead_somewhere_and_downloads_are_whole(book: Path, pages: list[str]) -> None:
    ids: dict[str, set[str]] = {}

    def targets(page: str) -> set[str]:
        if page not in ids:
            soup = BeautifulSoup((book / page).read_text(encoding="utf-8"), "html.parser")
            ids[page] = {element["id"] for element in soup.select("[id]")}
        return ids[page]

    downloads = 0
    for page in pages:
        soup = BeautifulSoup((book / page).read_text(encoding="utf-8"), "html.parser")
        for link in soup.select("a[href]"):
            href = link["href"]
            if re.match(r"[a-z]+:", href) or href == "#":
                continue
            path, anchor = urldefrag(unquote(urljoin(page, href)))
            target = book / path
            assert target.is_file(), (page, href)
            if anchor and path.endswith(".html"):
                assert anchor in targets(path), (page, href)
            if link.has_attr("download") and path.endswith(".csv"):
                downloads += 1
                assert len(pd.read_csv(io.BytesIO(target.read_bytes()))) > 0, href
            if link.has_attr("download") and path.endswith(".svg"):
                assert target.read_bytes().startswith(b"<?xml"), href
    assert downloads >= 20


def test_a_page_opens_from_a_file(browser: Browser, book: Path) -> None:
    context = browser.new_context(viewport=DESKTOP, offline=True)
    tab, wrong = context.new_page(), []
    inside = ("file:", "data:", "blob:")
    tab.on("request", lambda request: None if request.url.startswith(inside) else wrong.append(request.url))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.goto((book / "notebooks" / "01_metric.html").as_uri())
    tab.wait_for_selector("mjx-container")
    assert wrong == []
    assert tab.locator("figure.rbp-figure svg").count() > 0
    context.close()


def test_the_index_leads_to_the_first_page(visit: Visit) -> None:
    tab, _ = visit("index.html")
    tab.wait_for_url("**/book/welcome.html")
    assert tab.locator("main h1").first.inner_text().startswith("Does rank scale?")


def test_the_search_finds_the_law_and_leaves_out_how_the_book_was_made(visit: Visit) -> None:
    def found(word: str) -> list[str]:
        tab, _ = visit(f"search.html?q={word}")
        tab.wait_for_selector("#search-results p.search-summary:not(:empty)", timeout=10_000)
        tab.wait_for_timeout(500)
        return [link.get_attribute("href") or "" for link in tab.locator("#search-results li a").all()]

    assert len(found("exponent")) >= 3
    assert not any("made.html" in href for href in found("papermill"))
