"""What moves in the built book, as the reader has it: what it computes is tested in `tests/companion/chapters`."""

import pytest
from draws import rest_slow
from playwright.sync_api import expect
from tabs import watched

EXPLORER, SENTENCE = "notebooks/forecasts.html", "notebooks/see.html"
CHARTS, HIDDEN = ".rbp-explorer-chart:visible", "[aria-label='Where the hidden models fall'] tbody tr"
WIDTHS = pytest.mark.parametrize(("width", "scheme"), rest_slow([(390, "dark")], [(1280, "light"), (768, "light")]))


@WIDTHS
def test_the_explorer_works_from_a_file(browser, book, width, scheme):
    place = f"{(book / EXPLORER).as_uri()}#fit?dataset=wikipedia&family=Pythia&k=50&hide=3"
    with watched(browser, place, "file:", viewport={"width": width, "height": 844}, color_scheme=scheme) as tab:
        expect(tab.locator(f"{CHARTS}, {HIDDEN}")).to_have_count(2 + 3)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


@WIDTHS
def test_the_ledger_works_from_a_file_and_its_count_stays_in_sight(browser, book, width, scheme):
    place = f"{(book / 'notebooks' / 'ledger.html').as_uri()}#claim-models_and_sizes"
    with watched(browser, place, "file:", viewport={"width": width, "height": 844}, color_scheme=scheme) as tab:
        expect(tab.locator(":target .rbp-bars input:visible")).to_have_count(2)
        expect(tab.locator(":target")).to_be_in_viewport()
        expect(tab.locator(".rbp-ledger-count")).to_be_in_viewport()
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("how", ["file", "http"])
def test_a_sentence_that_is_typed_is_ranked(browser, book, address, how):
    inside = book.as_uri() if how == "file" else address
    with watched(browser, f"{inside}/{SENTENCE}", inside, viewport={"width": 390, "height": 844}) as tab:
        tab.get_by_label("Your text").fill("It is so, and it is not so.")
        expect(tab.get_by_role("status").filter(has_text="tokens ranked")).to_contain_text("ranked by 3 models")
        expect(tab.locator(".rbp-sentence-card")).to_have_count(3)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
