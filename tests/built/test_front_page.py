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
            assert tab.locator(".rbp-living-tools").count() == 0


def test_what_is_hidden_is_forecast(browser, book):
    values, models = (pd.read_csv(ROOT / "data" / "published" / f"{name}.csv") for name in ("rbp", "models"))
    table = values[values["dataset"] == "wikipedia"].merge(models, on="model").sort_values("non_embedding_params")
    with watched(browser, (book / PAGE).as_uri(), "file:", **DARK_PHONE) as tab:
        chart = tab.locator("[data-chart=hide]")
        count = chart.get_by_role("slider")
        for family, k in (("Pythia", 10), ("OPT", 1)):
            choose(chart.get_by_role("radio", name=family), DARK_PHONE)
            choose(chart.get_by_role("radio", name=f"k = {k}", exact=True), DARK_PHONE)
            rows = table[(table["family"] == family) & (table["k"] == k)]
            x, y = (np.log(rows[name].to_numpy(float)) for name in ("non_embedding_params", "neg_log_rbp"))
            count.focus()
            tab.keyboard.press("Home")
            for hidden in range(1, len(x) - 2):
                line = np.polyfit(x[:-hidden], y[:-hidden], 1)
                away = np.polyval(line, x[-hidden:]) - y[-hidden:]
                error = float(chart.locator("data[data-name=error]").get_attribute("value") or "nan")
                assert error == pytest.approx(100 * np.expm1(away[-1]), abs=2e-3)
                expect(chart).to_contain_text(f"{(away < 0).sum()} of {hidden} too optimistic")
                tab.keyboard.press("ArrowRight")
            assert int(count.input_value()) == len(x) - 3, "three models are left at least"
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
