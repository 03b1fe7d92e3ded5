"""Every page as a reader meets it: on a desktop, on a phone, in the dark, from a file, without a network."""

import gzip
import re
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from draws import loop_and_slow
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as TooLate
from tabs import watched

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}

MODES: dict[str, dict[str, Any]] = {
    "desktop": {"viewport": DESKTOP, "color_scheme": "light"},
    "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light"},
}
LOOK = """() => {
  const copy = document.querySelector('main').cloneNode(true);
  copy.querySelectorAll('pre, code, script, style, math').forEach(e => e.remove());
  document.querySelectorAll('main details').forEach(each => { each.open = true; });
  const hides = each => getComputedStyle(each).overflowX !== 'visible' && each.scrollWidth > each.clientWidth + 1;
  const wide = [...document.querySelectorAll('main :is(table, pre, .math, figure svg)')];
  const cut = wide.filter(each => {
    let outer = each;
    while (outer.tagName !== 'MAIN' && !hides(outer)) outer = outer.parentElement;
    if (outer.tagName === 'MAIN') return each.getBoundingClientRect().right > innerWidth + 1;
    return !getComputedStyle(outer).backgroundImage.includes('gradient');  // the shadow where there is more
  });
  return {
    cut: cut.map(each => each.outerHTML.slice(0, 100)),
    formulas: document.querySelectorAll('.math').length,
    typeset: [...document.querySelectorAll('.math > math')].filter(each => each.getBoundingClientRect().height > 8)
      .length,
    small: [...document.querySelectorAll('figure.rbp-figure svg[role=img] text')].flatMap(each => {
      const size = parseFloat(getComputedStyle(each).fontSize) * each.ownerSVGElement.getScreenCTM().a;
      return each.textContent.trim() && size < 10.99 ? [[each.closest('figure').id, each.textContent, size]] : [];
    }),
    texts: document.querySelectorAll('figure.rbp-figure svg[role=img] text').length,
    loaded: performance.getEntriesByType('resource').map(each => [each.name, each.renderBlockingStatus]),
    text: copy.textContent,
    width: document.documentElement.scrollWidth,
  };
}"""

FRONT, FORMULAS = "book/welcome.html", "notebooks/algebra.html"

Open = Callable[[Page, str], list[str]]
Look = Callable[[str], dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def open_page(address: str) -> Open:
    """Open a page in a tab; returns what went wrong: requests that left the book, script errors."""

    def opened(tab: Page, page: str) -> list[str]:
        wrong: list[str] = []
        inside = (address + "/", "data:", "blob:", "about:")
        tab.on("request", lambda request: None if request.url.startswith(inside) else wrong.append(request.url))
        tab.on("pageerror", lambda error: wrong.append(f"script error: {error}"))
        tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        tab.goto(f"{address}/{page}")
        return wrong

    return opened


def _switch(tab: Page, mode: str) -> None:
    """Show an open page as on another device."""
    tab.emulate_media(color_scheme=MODES[mode]["color_scheme"])
    tab.set_viewport_size(MODES[mode]["viewport"])
    tab.wait_for_function(
        "([theme, width]) => document.documentElement.dataset.theme === theme && innerWidth === width",
        arg=[MODES[mode]["color_scheme"], MODES[mode]["viewport"]["width"]],
    )
    with suppress(TooLate):  # what is still too wide then is found by its test
        tab.wait_for_function("document.documentElement.scrollWidth <= innerWidth", timeout=2000)


@pytest.fixture(scope="module", params=loop_and_slow((4, [[*MODES]]), (1, [[mode] for mode in MODES])))
def look(request: pytest.FixtureRequest, browser: Browser, pages: list[str], open_page: Open) -> Look:
    """look(mode): what the front page and each fourth show, opened once for all; in the slow set all, for each."""
    every, opened_for = request.param

    @cache
    def looked() -> dict[str, dict[str, dict[str, Any]]]:
        found: dict[str, dict[str, dict[str, Any]]] = {mode: {} for mode in MODES}
        for modes in opened_for:
            with closing(browser.new_context(**MODES[modes[0]])) as context:
                for page in dict.fromkeys([FRONT, FORMULAS, *pages[::every]]):
                    with closing(context.new_page()) as tab:
                        wrong = open_page(tab, page)
                        tab.add_style_tag(content="* { transition: none !important }")  # colours change at once
                        for mode in modes:
                            _switch(tab, mode)
                            found[mode][page] = tab.evaluate(LOOK) | {"wrong": wrong}
        return found

    return lambda mode: looked()[mode]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_loaded_from_outside_and_no_script_fails(look: Look, mode: str) -> None:
    assert {page: seen["wrong"] for page, seen in look(mode).items() if seen["wrong"]} == {}


def test_math_is_typeset_and_no_tex_is_left(look: Look) -> None:
    for page, seen in look("desktop").items():
        assert seen["typeset"] >= seen["formulas"], page
        assert not re.search(r"\\[a-zA-Z]{2,}|\$[^$\n]{1,80}\$|\{value|\bnan\b", seen["text"]), page
        assert page == "book/api.html" or not re.search(r"\bNone\b", seen["text"]), page  # it has signatures
    assert sum(seen["typeset"] for seen in look("desktop").values()) > 0


@pytest.mark.parametrize("mode", ["desktop", "phone"])
def test_the_text_of_figures_can_be_read(look: Look, mode: str) -> None:
    assert {page: seen["small"] for page, seen in look(mode).items() if seen["small"]} == {}
    assert sum(seen["texts"] for seen in look(mode).values()) > 100


SECOND = 700_000 / 8
"""The bytes that a slow line carries in a second: 700 kbit."""


def test_pages_are_light(look: Look, book: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What they load at once, as gzip sends it, and of that what the first look at them has to wait for."""

    def sent(file: str) -> int:
        return len(gzip.compress((book / unquote(urlsplit(file).path.lstrip("/"))).read_bytes()))

    weights = {}
    for page, seen in look("desktop").items():
        files = {name.removeprefix(address): status for name, status in seen["loaded"] if name.startswith(address)}
        assert any(name.endswith(".css") for name in files), page
        blocking = [name for name, status in files.items() if status == "blocking"]
        weights[page] = (sum(map(sent, {page, *files})), sum(map(sent, {page, *blocking})))
    with capsys.disabled():
        for page, (whole, first) in sorted(weights.items(), key=lambda each: -each[1][0]):
            print(f"\n{whole / 1e3:4.0f} kB, {first / 1e3:4.0f} kB of it before the first look  {page}", end="")  # noqa: T201
    heavy = {page: whole for page, (whole, _) in weights.items() if whole > (250e3 if "welcome" in page else 700e3)}
    assert heavy == {}
    assert {page: first for page, (_, first) in weights.items() if first > 2.5 * SECOND} == {}  # and half a second more


def test_no_page_is_wider_than_a_phone(look: Look) -> None:
    assert {page: seen["width"] for page, seen in look("phone").items() if seen["width"] > PHONE["width"]} == {}


@pytest.mark.parametrize("mode", ["desktop", "phone"])
def test_no_table_formula_or_code_is_cut_without_a_sign(look: Look, mode: str) -> None:
    assert {page: seen["cut"] for page, seen in look(mode).items() if seen["cut"]} == {}


def test_a_page_opens_from_a_file(browser: Browser, book: Path) -> None:
    page = (book / "notebooks" / "holds.html").as_uri()
    with watched(browser, page, "file:", viewport=DESKTOP, offline=True) as tab:
        assert tab.locator(".math > math").first.bounding_box()["height"] > 8
        assert tab.locator("figure.rbp-figure svg").count() > 0


def test_the_index_leads_to_the_first_page(browser: Browser, open_page: Open) -> None:
    with closing(browser.new_page()) as tab:
        assert open_page(tab, "index.html") == []
        tab.wait_for_url("**/book/welcome.html")
        assert tab.locator("main h1").first.inner_text().startswith("Does rank scale?")


def test_the_search_finds_the_law_and_leaves_out_how_the_book_was_made(browser: Browser, open_page: Open) -> None:
    with closing(browser.new_page()) as tab:

        def found(word: str) -> list[str]:
            open_page(tab, f"search.html?q={word}")
            tab.wait_for_selector("#search-results p.search-summary:not(:empty)", timeout=10_000)
            tab.wait_for_timeout(500)
            return [link.get_attribute("href") or "" for link in tab.locator("#search-results li a").all()]

        assert len(found("exponent")) >= 3
        assert not any("made.html" in href for href in found("papermill"))
        assert any("welcome.html" in href for href in found("cite"))
        assert len(found("HumanEval")) >= 5
        for word in ("Chinchilla", "Hoffmann", "MRR", "perplexity"):
            assert any("glossary.html" in href for href in found(word)), word
        assert "emergence.html" in found("emergence")[0], "titles first"
        assert "Code and parameters" not in tab.locator("#search-results").inner_text()
        assert found("numpy") == [] or not any("notebooks/" in href for href in found("numpy")), "no code of cells"


def test_the_search_of_a_file_shows_sentences_and_chapters_first(browser: Browser, book: Path) -> None:
    with watched(browser, (book / "search.html").as_uri() + "?q=temperature", "file:", offline=True) as tab:
        tab.wait_for_selector("#search-results li p.context")
        expect(tab.locator("#search-results p.search-summary")).not_to_be_empty()
        results = tab.locator("#search-results li")
        pages = [each.get_attribute("href") or "" for each in results.locator("a").all()]
        assert pages[0].startswith("notebooks/see.html")
        assert any("api.html" in page for page in pages), "the reference has it too"
        expect(results.first.locator("p.context")).to_contain_text(re.compile("temperature", re.IGNORECASE))


def test_code_and_parameters_open_at_the_switch_without_a_script_too(browser: Browser, book: Path) -> None:
    page = (book / "notebooks" / "holds.html").as_uri()
    for scripts in (True, False):
        with watched(browser, page, "file:", viewport=DESKTOP, java_script_enabled=scripts) as tab:
            code = tab.locator("article .cell_input").first
            expect(code).to_be_hidden()
            expect(tab.locator(".rbp-rerun")).to_be_hidden()
            tab.locator(".rbp-code summary").press("Enter")
            expect(code).to_be_visible()
            expect(tab.locator(".rbp-rerun")).to_be_visible()
            named = tab.locator("button.copybtn").all()
            assert bool(named) == scripts
            assert all(each.get_attribute("aria-label") for each in named)
