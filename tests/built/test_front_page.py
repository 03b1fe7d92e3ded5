"""The front page as a stranger meets it: a sentence, a chart that moves, pictures where nothing does."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tabs import PHONE, watched

from companion.project import ROOT

PAGE = "book/welcome.html"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
EVERYWHERE = pytest.mark.parametrize("where", [DESKTOP, PHONE | {"color_scheme": "dark"}], ids=["desktop", "phone"])
AS_PUBLISHED = 2e-5  # the book has GPT-2's from counts, which the published shares round
FAMILIES = ("GPT-2", "OPT", "Pythia", "Qwen2.5")


@contextmanager
def front(browser: Browser, book: Path, **options: Any) -> Iterator[Page]:
    with watched(browser, (book / PAGE).as_uri(), "file:", **options) as tab:
        yield tab
        if options.get("java_script_enabled", True):
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    """−ln RBP_k of the paper's models on Wikipedia, as the files have it."""
    values, models = (pd.read_csv(ROOT / "data" / "published" / f"{name}.csv") for name in ("rbp", "models"))
    table = values[values["dataset"] == "wikipedia"].merge(models, on="model")
    return table.sort_values("non_embedding_params").rename(columns={"non_embedding_params": "size"})


def of(table: pd.DataFrame, family: str, k: int) -> tuple[Any, Any]:
    own = table[(table["family"] == family) & (table["k"] == k)]
    return np.log(own["size"].to_numpy(float)), np.log(own["neg_log_rbp"].to_numpy(float))


def told(chart: Locator, name: str) -> float:
    return float(chart.locator(f"data[data-name={name}]").get_attribute("value") or "nan")


def press(tab: Page, control: Locator, key: str) -> None:
    control.focus()
    tab.keyboard.press(key)


def choose(control: Locator, where: dict[str, Any]) -> None:
    """By a click, or by a finger."""
    chip = control.locator("xpath=..")
    chip.tap() if where.get("has_touch") else chip.click()
    expect(control).to_be_checked()


@EVERYWHERE
def test_a_piece_that_is_chosen_shows_what_was_expected(browser: Browser, book: Path, where: dict[str, Any]) -> None:
    for scripts in (True, False):
        with front(browser, book, **where, java_script_enabled=scripts) as tab:
            shown = tab.locator("#words table:visible")
            expect(shown).to_have_count(1)
            choose(tab.get_by_role("radio", name="Court rank 1", exact=True), where)
            expect(shown.locator("caption")).to_have_text("“Court” has rank 1")
            expect(shown.locator(".rbp-sentence-truth")).to_contain_text("Court ◂ the text")
            tab.keyboard.press("ArrowRight")
            expect(shown.locator("caption")).to_contain_text("“held” has rank")
            assert shown.locator("tr").count() == 6, "the five that were expected, and what came"


@EVERYWHERE
def test_what_is_hidden_is_forecast(
    browser: Browser, book: Path, published: pd.DataFrame, where: dict[str, Any]
) -> None:
    signs = set()
    with front(browser, book, **where) as tab:
        chart = tab.locator("[data-chart=hide]")
        count = chart.get_by_role("slider")
        for family in FAMILIES:
            choose(chart.get_by_role("radio", name=family), where)
            for k in (1, 10, 100):
                choose(chart.get_by_role("radio", name=f"k = {k}", exact=True), where)
                x, y = of(published, family, k)
                press(tab, count, "Home")
                for hidden in range(1, len(x) - 2):
                    line = np.polyfit(x[:-hidden], y[:-hidden], 1)
                    away = np.polyval(line, x[-hidden:]) - y[-hidden:]
                    assert told(chart, "alpha") == pytest.approx(-line[0], rel=AS_PUBLISHED)
                    assert told(chart, "error") == pytest.approx(100 * np.expm1(away[-1]), abs=100 * AS_PUBLISHED)
                    expect(chart).to_contain_text(f"{(away < 0).sum()} of {hidden} too optimistic")
                    expect(chart.locator(".rbp-living-miss")).to_have_count(hidden)
                    signs.add(away[-1] < 0)
                    tab.keyboard.press("ArrowRight")
                assert int(count.input_value()) == len(x) - 3, "three models are left at least"
    assert signs == {True, False}


@EVERYWHERE
def test_without_scripts_there_are_pictures(browser: Browser, book: Path, where: dict[str, Any]) -> None:
    with front(browser, book, **where, java_script_enabled=False) as tab:
        pictures = tab.locator("figure.rbp-figure svg[role=img]")
        expect(pictures).to_have_count(4)
        for picture in pictures.all():
            assert (picture.bounding_box() or {"height": 0})["height"] > 150
            assert len(picture.get_attribute("aria-label") or "") > 40
        assert tab.locator(".rbp-living-tools").count() == 0


def test_the_verdict_is_the_ledgers(browser: Browser, book: Path) -> None:
    with closing(browser.new_page()) as tab:
        tab.goto((book / "notebooks" / "ledger.html").as_uri())
        rows = tab.locator("#claims-argument .rbp-claim .rbp-says").all_text_contents()[:3]
        tab.goto((book / PAGE).as_uri())
        items = tab.locator("section#the-verdict > ul > li").all_inner_texts()
    assert [" ".join(each.split()) for each in items] == rows
    assert len(rows) == 3
