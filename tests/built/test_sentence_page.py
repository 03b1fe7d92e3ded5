"""Type a sentence in the built book, as the reader has it: what it computes is tested in `tests/companion/chapters`."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tabs import watched

PAGE = "notebooks/see.html"


@pytest.mark.parametrize(("how", "width", "scheme"), [("file", 390, "dark"), ("http", 1280, "light")])
def test_it_ranks_what_is_typed(browser: Browser, book: Path, address: str, how: str, width: int, scheme: str) -> None:
    place = (book / PAGE).as_uri() if how == "file" else f"{address}/{PAGE}"
    inside = book.as_uri() if how == "file" else address
    with watched(browser, place, inside, viewport={"width": width, "height": 844}, color_scheme=scheme) as tab:
        tab.get_by_label("Your text").fill("It is so, and it is not so.")
        expect(tab.get_by_role("status").filter(has_text="tokens ranked")).to_contain_text("ranked by 3 models")
        expect(tab.locator(".rbp-sentence-card")).to_have_count(3)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_is_light_and_weights_lie_beside_it(book: Path) -> None:
    assert (book / PAGE).stat().st_size < 1.5e6
    weights = sorted((book / PAGE).with_suffix("").glob("*.js"))
    assert len(weights) == 7
    assert sum(path.stat().st_size for path in weights) < 24e6


@pytest.mark.parametrize(("script", "page"), [("sentence.js", PAGE), ("explorer.js", "notebooks/forecasts.html")])
def test_only_its_page_loads_a_script(book: Path, script: str, page: str) -> None:
    loading = {path.name for path in (book / "notebooks").glob("*.html") if script in path.read_text()}
    assert loading == {Path(page).name}


def test_the_search_reads_no_vocabulary(book: Path) -> None:
    assert "ġ" not in (book / "searchindex.js").read_text(encoding="utf-8").lower().replace("\\u0121", "ġ")
