"""What moves in the built book, as the reader has it: what it computes is tested in `tests/companion/chapters`."""

from playwright.sync_api import expect
from tabs import PHONE, watched


def test_a_sentence_that_is_typed_is_ranked_and_kept_in_the_address(browser, book):
    with watched(browser, f"{book.as_uri()}/notebooks/see.html", book.as_uri(), **PHONE) as tab:
        tab.get_by_label("Your text").fill("It is so, and it is not so.")
        expect(tab.get_by_role("status").filter(has_text="tokens ranked")).to_contain_text("ranked by 3 models")
        expect(tab.locator(".rbp-sentence-card")).to_have_count(3)
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        tab.wait_for_function("location.hash.includes('it+is+not+so')")
        tab.reload()  # the address is what is shared
        expect(tab.get_by_label("Your text")).to_have_value("It is so, and it is not so.")
        expect(tab.get_by_role("status").filter(has_text="tokens ranked")).to_contain_text("ranked by 3 models")
