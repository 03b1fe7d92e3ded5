"""The front page as a stranger meets it: a sentence, a chart that moves, pictures where nothing does."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect
from tabs import PHONE, watched

from companion.project import ROOT

PAGE = "book/welcome.html"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
DARK_PHONE = PHONE | {"color_scheme": "dark"}
AS_PUBLISHED = 2e-5  # the book has GPT-2's from counts, which the published shares round


@pytest.fixture(scope="module")
def published():
    """−ln RBP_k of the paper's models on Wikipedia, as the files have it."""
    values, models = (pd.read_csv(ROOT / "data" / "published" / f"{name}.csv") for name in ("rbp", "models"))
    table = values[values["dataset"] == "wikipedia"].merge(models, on="model")
    return table.sort_values("non_embedding_params").rename(columns={"non_embedding_params": "size"})


def value(chart, name):
    return float(chart.locator(f"data[data-name={name}]").get_attribute("value") or "nan")


def choose(control, where):
    chip = control.locator("xpath=..")
    chip.tap() if where.get("has_touch") else chip.click()
    expect(control).to_be_checked()


@pytest.mark.parametrize(("where", "scripts"), [(DESKTOP, True), (DARK_PHONE, False)], ids=["desktop", "no scripts"])
def test_a_piece_that_is_chosen_shows_what_was_expected(browser, book, where, scripts):
    with watched(browser, (book / PAGE).as_uri(), "file:", **where, java_script_enabled=scripts) as tab:
        shown = tab.locator("#words table:visible")
        expect(shown).to_have_count(1)
        choose(tab.get_by_role("radio", name="Court rank 1", exact=True), where)
        expect(shown.locator("caption")).to_have_text("“Court” has rank 1")
        expect(shown.locator(".rbp-sentence-truth")).to_contain_text("Court ◂ the text")
        tab.keyboard.press("ArrowRight")
        expect(shown.locator("caption")).to_contain_text("“held” has rank")
        assert shown.locator("tr").count() == 6, "the five that were expected, and what came"
        if not scripts:
            pictures = tab.locator("figure.rbp-figure svg[role=img]")
            expect(pictures).to_have_count(4)
            for picture in pictures.all():
                assert (picture.bounding_box() or {"height": 0})["height"] > 150
                assert len(picture.get_attribute("aria-label") or "") > 40
            assert tab.locator(".rbp-living-tools").count() == 0


@pytest.mark.parametrize(
    ("where", "families", "ks"),
    [(DESKTOP, ("GPT-2", "OPT", "Pythia", "Qwen2.5"), (1,)), (DARK_PHONE, ("Pythia",), (10, 100))],
    ids=["desktop", "phone"],
)
def test_what_is_hidden_is_forecast(browser, book, published, where, families, ks):
    with watched(browser, (book / PAGE).as_uri(), "file:", **where) as tab:
        chart = tab.locator("[data-chart=hide]")
        count = chart.get_by_role("slider")
        for family, k in ((family, k) for family in families for k in ks):
            choose(chart.get_by_role("radio", name=family), where)
            choose(chart.get_by_role("radio", name=f"k = {k}", exact=True), where)
            models = published[(published["family"] == family) & (published["k"] == k)]
            x, y = (np.log(models[name].to_numpy(float)) for name in ("size", "neg_log_rbp"))
            count.focus()
            tab.keyboard.press("Home")
            for hidden in range(1, len(x) - 2):
                line = np.polyfit(x[:-hidden], y[:-hidden], 1)
                away = np.polyval(line, x[-hidden:]) - y[-hidden:]
                assert value(chart, "alpha") == pytest.approx(-line[0], rel=AS_PUBLISHED)
                assert value(chart, "error") == pytest.approx(100 * np.expm1(away[-1]), abs=100 * AS_PUBLISHED)
                expect(chart).to_contain_text(f"{(away < 0).sum()} of {hidden} too optimistic")
                expect(chart.locator(".rbp-living-miss")).to_have_count(hidden)
                tab.keyboard.press("ArrowRight")
            assert int(count.input_value()) == len(x) - 3, "three models are left at least"
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
