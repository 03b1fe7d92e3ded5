"""What moves in the built book, as the reader has it: what it computes is tested in `tests/companion/chapters`."""

import pytest
from playwright.sync_api import expect
from tabs import PHONE, watched

SENTENCE, EXPLORER = "notebooks/see.html", "notebooks/forecasts.html#fit?dataset=wikipedia&family=Pythia&k=50&hide=3"
LEDGER = "notebooks/ledger.html#claim-models_and_sizes"
CHARTS, HIDDEN = ".rbp-explorer-chart:visible", "[aria-label='Where the hidden models fall'] tbody tr"
BARS = ":target .rbp-rule .rbp-verdict:visible"


@pytest.mark.parametrize(
    ("place", "parts", "count", "in_sight"),
    [(EXPLORER, f"{CHARTS}, {HIDDEN}", 2 + 3, []), (LEDGER, BARS, 2, [":target", ".rbp-ledger-count"])],
    ids=["explorer", "ledger"],
)
def test_it_works_from_a_file(browser, book, place, parts, count, in_sight):
    with watched(browser, f"{book.as_uri()}/{place}", "file:", **PHONE, color_scheme="dark") as tab:
        expect(tab.locator(parts)).to_have_count(count)
        for each in in_sight:
            expect(tab.locator(each)).to_be_in_viewport()
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_sentence_that_is_typed_is_ranked_and_kept_in_the_address(browser, book):
    with watched(browser, f"{book.as_uri()}/{SENTENCE}", book.as_uri(), **PHONE) as tab:
        tab.get_by_label("Your text").fill("It is so, and it is not so.")
        expect(tab.get_by_role("status").filter(has_text="tokens ranked")).to_contain_text("ranked by 3 models")
        expect(tab.locator(".rbp-sentence-card")).to_have_count(3)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        tab.wait_for_function("location.hash.includes('it+is+not+so')")
        tab.reload()  # the address is what is shared
        expect(tab.get_by_label("Your text")).to_have_value("It is so, and it is not so.")
        expect(tab.get_by_role("status").filter(has_text="tokens ranked")).to_contain_text("ranked by 3 models")
