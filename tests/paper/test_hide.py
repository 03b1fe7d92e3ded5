"""Hide the largest, in a browser, from a file: its forecasts are those of Python."""

from collections.abc import Iterator

import pandas as pd
import pytest
from draws import loop_and_slow
from playwright.sync_api import Browser, Page, expect

from rbp.core.paths import ROOT
from rbp.evidence import open_source
from rbp.paper.explorer import hide_the_largest
from rbp.paper.forecasts import cuts

STATIC = ROOT / "book" / "_static"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
KS = [1, 10, 100]
START = {"dataset": "wikipedia", "family": "Pythia", "k": 1, "seen": 8}
READ = """hash => new Promise(done => {
  const read = () => [...document.querySelectorAll('.rbp-hide tbody tr')].map(row => [
    row.dataset.family, row.cells[0].innerText, ...[...row.querySelectorAll('data')].map(each => Number(each.value)),
    row.cells[5].innerText]);
  addEventListener('hashchange', () => setTimeout(() => done(read())), {once: true});
  location.hash = hash;
})"""


@pytest.fixture(scope="module")
def points() -> pd.DataFrame:
    table = open_source("published").table
    return table[table["k"].isin(KS) | (table["metric"] == "cross_entropy")]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, points: pd.DataFrame) -> str:
    page = tmp_path_factory.mktemp("hide") / "page.html"
    scripts = "".join(
        f'<script src="{(STATIC / f"{name}.js").as_uri()}"></script>' for name in ("fits", "charts", "hide")
    )
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">{scripts}'
    head += f'<link rel="stylesheet" href="{(STATIC / "rbp.css").as_uri()}">'
    body = hide_the_largest(points, level=0.95, **START)
    page.write_text(f"<!doctype html><html><head>{head}</head><body>{body}</body></html>", encoding="utf-8")
    return page.as_uri()


@pytest.fixture(params=[{}])
def tab(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    """The page; what fails in it, or leaves it, fails the test."""
    context = browser.new_context(**request.param)
    tab, wrong = context.new_page(), []
    tab.on("request", lambda each: None if each.url.startswith(("file:", "data:")) else wrong.append(each.url))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.goto(address)
    tab.locator(".rbp-hide details").evaluate("each => { each.open = true; }")  # innerText of what is folded is empty
    yield tab
    context.close()
    assert wrong == []


def verdict(row: "pd.Series[float]") -> str:
    return "yes" if row.low <= row.value <= row.high else "no: worse" if row.value > row.high else "no: better"


@pytest.mark.parametrize("step", loop_and_slow(9, 1))
def test_its_forecasts_are_those_of_python_at_every_cut(tab: Page, points: pd.DataFrame, step: int) -> None:
    compared = set()
    cells = list(points[points["k"].notna()].groupby(["dataset", "family", "k"]))
    of_both = [(key, own) for key, own in cells if key == ("wikipedia", "Pythia", 10)]
    for (dataset, family, k), own in [*of_both, *cells[::step]]:
        entropy = points.query("metric == 'cross_entropy' and dataset == @dataset and family == @family")
        sides = {"neg_log_rbp": cuts(own, level=0.95)}
        sides |= {"cross_entropy": cuts(entropy, level=0.95)} if len(entropy) else {}
        for seen in sides["neg_log_rbp"]["seen"].unique():
            shown = tab.evaluate(READ, f"hide?dataset={dataset}&family={family}&k={int(k)}&seen={seen}")
            right = [(side, row) for side, rows in sides.items() for _, row in rows[rows.seen == seen].iterrows()]
            assert len(shown) == len(right)
            for (side, model, *numbers, said), (wanted, row) in zip(shown, right, strict=True):
                assert (side, model, said) == (wanted, row.model.rpartition("/")[2], verdict(row))
                assert numbers == pytest.approx([row.predicted, row.low, row.high], rel=1e-9)
                compared.add((side, said))
    assert len(compared) >= 5


@pytest.mark.parametrize("tab", [{}, PHONE], indirect=True, ids=["mouse", "touch"])
def test_the_slider_and_the_choices(tab: Page, browser: Browser) -> None:
    slider, status = tab.get_by_label("The fit sees the"), tab.get_by_role("status")
    expect(tab.locator("label", has=slider)).to_contain_text("8 smallest of 10")
    assert tab.locator(".rbp-explorer-chart:visible").count() == 2
    if tab.evaluate("navigator.maxTouchPoints"):
        slider.tap(position={"x": 3, "y": 12})
    else:
        slider.focus()
        tab.keyboard.press("Home")
    expect(tab.locator("label", has=slider)).to_contain_text("3 smallest of 10")
    expect(status).to_contain_text("of 7 hidden inside")
    slider.press("ArrowRight")
    tab.wait_for_function("location.hash.includes('seen=4')")
    again = browser.new_page()
    again.goto(tab.url)
    expect(again.get_by_role("status")).to_have_text(status.inner_text())
    again.close()
    tab.get_by_label("Family").select_option("OPT")
    assert tab.locator(".rbp-explorer-chart:visible").count() == 1
    expect(status).to_contain_text("is not among the measurements")
    tab.get_by_label("Data set").select_option("humaneval")
    expect(tab.get_by_label("Family")).to_have_value("OPT")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_what_is_outside_has_a_ring(tab: Page, points: pd.DataFrame) -> None:
    tab.evaluate(READ, "hide?dataset=wikipedia&family=Pythia&k=1&seen=7")
    own = points.query("dataset == 'wikipedia' and family == 'Pythia'")
    for i, part in enumerate((own[own.k == 1], own[own.metric == "cross_entropy"])):
        told = cuts(part, level=0.95).query("seen == 7")
        rings = tab.locator(".rbp-explorer-chart").nth(i).locator(".rbp-explorer-outside").count()
        assert rings == ((told.value < told.low) | (told.value > told.high)).sum()
        assert rings > 0


def test_bad_addresses_give_way(tab: Page) -> None:
    assert tab.evaluate(READ, "hide?dataset=none&family=none&k=7&seen=999")
    expect(tab.get_by_label("Data set")).not_to_have_value("")
