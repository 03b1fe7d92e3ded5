"""Every page as a reader meets it: on a desktop, on a phone, by keyboard, without a network."""

import importlib.resources
import re
from contextlib import suppress

import pytest
from draws import loop_and_slow
from playwright.sync_api import TimeoutError as TooLate
from playwright.sync_api import expect
from tabs import watched

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
MODES = {"desktop": DESKTOP, "phone": PHONE}
AXE = (importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
VIOLATIONS = """rules => axe.run(rules).then(found => found.violations.map(
  each => [each.id, each.nodes.slice(0, 3).map(node => node.html.slice(0, 200) + ' ' + node.failureSummary)]))"""
CONTRAST = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}  # all that colours change
UNREACHED = """() => [...document.querySelectorAll('main :is(a[href], button, input, select, textarea, summary)')]
  .filter(each => each.checkVisibility() && !each.disabled && each.tabIndex < 0)
  .filter(each => !each.parentElement.querySelector(':scope > [tabindex="0"]'))  // arrows reach the others of a row
  .map(each => each.outerHTML.slice(0, 120))
"""
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
    text: copy.textContent,
    width: document.documentElement.scrollWidth,
  };
}"""

FRONT, FORMULAS, SEARCH = "book/welcome.html", "notebooks/algebra.html", "search.html"


def _switch(tab, mode):
    """Show an open page as on another device."""
    tab.set_viewport_size(MODES[mode])
    tab.wait_for_function("width => innerWidth === width", arg=MODES[mode]["width"])
    with suppress(TooLate):  # what is still too wide then is found by its test
        tab.wait_for_function("document.documentElement.scrollWidth <= innerWidth", timeout=5000)


@pytest.fixture(scope="module", params=loop_and_slow(12, 1))
def seen(request, browser, pages, address):
    """By mode and page, what the front page and each twelfth show, each opened once; in the slow set, all of them."""
    found, every, light = {mode: {} for mode in MODES}, request.param, {"viewport": DESKTOP, "color_scheme": "light"}
    for page in dict.fromkeys([FRONT, FORMULAS, *pages[2 * every // 3 :: every], SEARCH]):
        with watched(browser, f"{address}/{page}", f"{address}/", "about:", **light) as tab:
            tab.evaluate(AXE)
            tab.add_style_tag(content="* { transition: none !important }")  # colours change at once
            access = [*tab.evaluate(VIOLATIONS, {}), *tab.evaluate(UNREACHED)]
            tab.emulate_media(color_scheme="dark")
            tab.wait_for_function("document.documentElement.dataset.theme === 'dark'")
            access += tab.evaluate(VIOLATIONS, CONTRAST)
            tab.emulate_media(color_scheme="light")
            for mode in MODES:
                _switch(tab, mode)
                found[mode][page] = tab.evaluate(LOOK) | {"access": access}
    return found


def test_no_page_breaks_a_rule_of_access_and_the_keyboard_reaches_all(seen):
    assert {page: each["access"] for page, each in seen["phone"].items() if each["access"]} == {}


def test_math_is_typeset_and_no_tex_is_left(seen):
    for page, each in seen["desktop"].items():
        assert each["typeset"] >= each["formulas"], page
        assert not re.search(r"\\[a-zA-Z]{2,}|\$[^$\n]{1,80}\$|\{value|\bnan\b", each["text"]), page
        assert page == "book/api.html" or not re.search(r"\bNone\b", each["text"]), page  # it has signatures
    assert seen["desktop"][FORMULAS]["typeset"] > 0


@pytest.mark.parametrize("mode", MODES)
def test_texts_of_figures_can_be_read_and_nothing_is_cut_without_a_sign(seen, mode):
    for page, each in seen[mode].items():
        assert each["small"] == [], page
        assert each["cut"] == [], page
        assert each["width"] <= MODES[mode]["width"], page
    assert sum(each["texts"] for each in seen[mode].values()) > 100


def test_a_page_opens_from_a_file_and_its_code_at_the_switch_without_a_script_too(browser, book):
    page = (book / "notebooks" / "holds.html").as_uri()
    for scripts in (True, False):
        with watched(browser, page, "file:", viewport=DESKTOP, offline=True, java_script_enabled=scripts) as tab:
            assert tab.locator(".math > math").first.bounding_box()["height"] > 8
            assert tab.locator("figure.rbp-figure svg").count() > 0
            code = tab.locator("article .cell_input").first
            expect(code).to_be_hidden()
            expect(tab.locator(".rbp-rerun")).to_be_hidden()
            tab.locator(".rbp-code summary").press("Enter")
            expect(code).to_be_visible()
            expect(tab.locator(".rbp-rerun")).to_be_visible()
