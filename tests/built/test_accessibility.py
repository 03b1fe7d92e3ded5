"""Every page to those who cannot see it, or have no mouse: axe-core's rules, and the keyboard, in both themes."""

import importlib.resources
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from draws import loop_and_slow
from playwright.sync_api import Browser, Page

AXE = (importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
RUN = """options => axe.run(document, options).then(found => found.violations.map(
  each => [each.id, each.nodes.slice(0, 3).map(node => node.html.slice(0, 200) + ' ' + node.failureSummary)]))"""
UNREACHED = """() => [...document.querySelectorAll('main :is(a[href], button, input, select, textarea, summary)')]
  .filter(each => each.checkVisibility() && !each.disabled && each.tabIndex < 0)
  .filter(each => !each.parentElement.querySelector(':scope > [tabindex="0"]'))  // arrows reach the others of a row
  .map(each => each.outerHTML.slice(0, 120))
"""


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Page]:
    """A desktop's tab."""
    with closing(browser.new_page(viewport={"width": 1280, "height": 900})) as tab:
        yield tab


@pytest.mark.parametrize("every", loop_and_slow(25, 1))
def test_no_page_breaks_a_rule_and_the_keyboard_reaches_all(
    tab: Page, address: str, pages: list[str], every: int
) -> None:
    wrong: dict[str, Any] = {}
    tab.on("pageerror", lambda error: wrong.setdefault("script", []).append(str(error)))
    for page in dict.fromkeys(["book/welcome.html", *pages[every // 2 :: every], "search.html"]):
        tab.goto(f"{address}/{page}")
        tab.add_style_tag(content="* { transition: none !important }")
        tab.evaluate(AXE)
        for theme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):  # the rest has no colour
            tab.emulate_media(color_scheme=theme)
            tab.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
            if found := tab.evaluate(RUN, options):
                wrong[f"{page}, {theme}"] = found
        if unreached := tab.evaluate(UNREACHED):
            wrong[f"{page}, keyboard"] = unreached
    assert wrong == {}
