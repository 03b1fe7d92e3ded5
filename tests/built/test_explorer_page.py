"""What moves in the built book, as the reader has it: what it computes is tested in `tests/companion/chapters`."""

from contextlib import closing
from pathlib import Path

import pytest
from draws import rest_slow
from playwright.sync_api import Browser, expect
from tabs import watched

PAGE = "notebooks/forecasts.html"
CHARTS, HIDDEN = ".rbp-explorer-chart:visible", "[aria-label='Where the hidden models fall'] tbody tr"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize(
    ("place", "shown", "count"),
    [
        (f"{PAGE}#fit?dataset=wikipedia&family=Pythia&k=50&hide=3", f"{CHARTS}, {HIDDEN}", 2 + 3),
        ("notebooks/ledger.html#claim-models_and_sizes", ":target .rbp-bars input:visible", 2),
    ],
)
def test_it_works_from_a_file(
    browser: Browser, book: Path, place: str, shown: str, count: int, width: int, scheme: str
) -> None:
    about = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme}
    with watched(browser, f"{book.as_uri()}/{place}", "file:", **about) as tab:
        expect(tab.locator(shown)).to_have_count(count)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


WIDTHS = pytest.mark.parametrize("width", rest_slow([1280, 390], [768]))
FAMILIES = "family=Pythia&family=GPT-2&family=OPT&family=Qwen2.5&family=neox"
MIDDLE = "point => { const { e, f } = point.querySelector('path').getScreenCTM(); return [e, f]; }"


@WIDTHS
def test_a_click_on_a_point_takes_that_model(browser: Browser, book: Path, width: int) -> None:
    with closing(browser.new_page(viewport={"width": width, "height": 844})) as tab:
        tab.goto((book / PAGE).as_uri() + f"#fit?dataset=wikipedia&k=10&{FAMILIES}")
        tab.locator(".rbp-explorer-point").first.wait_for()
        taken, names = [], []
        for point in tab.locator(".rbp-explorer-point").all():
            point.scroll_into_view_if_needed()
            names.append((point.locator("title").text_content() or "").partition(":")[0])
            tab.mouse.click(*point.evaluate(MIDDLE))
            left = point.page.locator(".rbp-explorer-point title", has_text="(left out)")
            expect(left).to_have_count(1)
            taken.append((left.text_content() or "").partition(":")[0])
            tab.evaluate("document.querySelector('#rbp-explorer-everybody').click()")
            expect(left).to_have_count(0)
        assert len(names) == len(set(names)) > 24
        assert taken == names


def test_the_ledgers_count_stays_in_sight(browser: Browser, book: Path) -> None:
    with closing(browser.new_page(viewport={"width": 390, "height": 844})) as tab:
        tab.goto((book / "notebooks" / "ledger.html").as_uri() + "#claim-models_and_sizes")
        expect(tab.locator(":target")).to_be_in_viewport()
        expect(tab.locator(".rbp-ledger-count")).to_be_in_viewport()
