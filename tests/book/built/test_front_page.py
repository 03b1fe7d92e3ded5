"""The front page as a stranger meets it: a sentence, three charts that move, pictures where nothing can."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from scipy.optimize import minimize
from tabs import PHONE, watched

from rbp.book import results
from rbp.core.paths import ROOT, Project

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


def drag(tab: Page, start: tuple[float, float], end: tuple[float, float], *, finger: bool) -> None:
    if not finger:
        tab.mouse.move(*start)
        tab.mouse.down()
        tab.mouse.move(*end, steps=5)
        tab.mouse.up()
        return
    session = tab.context.new_cdp_session(tab)
    places = [(start[0] + (end[0] - start[0]) * i / 5, start[1] + (end[1] - start[1]) * i / 5) for i in range(6)]
    for kind, some in (("touchStart", places[:1]), ("touchMove", places[1:]), ("touchEnd", [()])):
        for place in some:
            points = [{"x": place[0], "y": place[1]}] if place else []
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def middle(element: Locator) -> tuple[float, float]:
    box = element.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@EVERYWHERE
def test_a_piece_that_is_chosen_shows_what_was_expected(browser: Browser, book: Path, where: dict[str, Any]) -> None:
    for scripts in (True, False):
        with front(browser, book, **where, java_script_enabled=scripts) as tab:
            shown = tab.locator("#words table:visible")
            expect(shown).to_have_count(1)
            choose(tab.get_by_role("radio", name="Court rank 1", exact=True), where)
            expect(shown.locator("caption")).to_have_text("“Court” has rank 1")
            expect(shown.locator(".rbp-sentence-truth")).to_contain_text("Court ◂ came")
            tab.keyboard.press("ArrowRight")
            expect(shown.locator("caption")).to_contain_text("“held” has rank")
            assert shown.locator("tr").count() == 6, "the five that were expected, and what came"


@EVERYWHERE
def test_the_line_is_dragged(browser: Browser, book: Path, published: pd.DataFrame, where: dict[str, Any]) -> None:
    with front(browser, book, **where) as tab:
        chart = tab.locator("[data-chart=line]")
        chart.scroll_into_view_if_needed()

        def agrees(family: str) -> tuple[float, float]:
            x, y = of(published, family, 1)
            away = y - np.log(told(chart, "prefactor")) + told(chart, "alpha") * x
            assert told(chart, "r_squared") == pytest.approx(1 - away @ away / ((y - y.mean()) ** 2).sum(), abs=1e-9)
            return told(chart, "alpha"), told(chart, "r_squared")

        best = agrees("Pythia")
        assert best[0] == pytest.approx(-np.polyfit(*of(published, "Pythia", 1), 1)[0], rel=1e-9)
        low, high, body = (chart.locator(f"[data-part={part}]") for part in ("low", "high", "middle"))
        x, y = middle(low)
        drag(tab, (x, y), (x, y + 60), finger="has_touch" in where)
        flat = agrees("Pythia")
        assert flat[0] < best[0] - 0.01
        assert flat[1] < best[1]
        assert middle(low)[1] == pytest.approx(y + 60, abs=2), "the end is where the pointer is"
        x, y = middle(body)
        drag(tab, (x, y), (x, y - 30), finger="has_touch" in where)
        moved = agrees("Pythia")
        assert moved[0] == pytest.approx(flat[0]), "in the middle it only moves"
        assert moved[1] != flat[1]
        x, y = middle(high)
        drag(tab, (x, y), (x, y - 5000), finger=False)
        assert agrees("Pythia")[0] == pytest.approx(-0.05), "no farther than the slider goes"
        chart.get_by_role("button", name="Best line").click()
        assert agrees("Pythia") == pytest.approx(best)


def test_the_line_is_moved_by_keys(browser: Browser, book: Path, published: pd.DataFrame) -> None:
    with front(browser, book, **DESKTOP) as tab:
        chart = tab.locator("[data-chart=line]")
        tab.get_by_role("group", name="Family").first.get_by_role("radio", name="Pythia").focus()
        for family in ("Qwen2.5", *FAMILIES):
            tab.keyboard.press("ArrowRight")
            slope, front_ = np.polyfit(*of(published, family, 1), 1)
            assert told(chart, "alpha") == pytest.approx(-slope, rel=AS_PUBLISHED)
            assert told(chart, "prefactor") == pytest.approx(np.exp(front_), rel=AS_PUBLISHED)
        alpha, quality = told(chart, "alpha"), told(chart, "r_squared")
        press(tab, chart.get_by_label("Slope"), "ArrowRight")
        assert told(chart, "alpha") == pytest.approx(alpha + 0.001, abs=6e-4)
        press(tab, chart.get_by_label("Slope"), "End")
        assert told(chart, "alpha") == 0.25
        assert told(chart, "r_squared") < quality
        press(tab, chart.get_by_label("Height"), "Home")
        said = chart.get_by_label("Height").get_attribute("aria-valuetext") or ""
        assert f"{told(chart, 'r_squared'):.3f}" in said


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
                    expect(chart).to_contain_text(f"{(away < 0).sum()} of {hidden} forecasts too hopeful")
                    expect(chart.locator(".rbp-living-miss")).to_have_count(hidden)
                    signs.add(away[-1] < 0)
                    tab.keyboard.press("ArrowRight")
                assert int(count.input_value()) == len(x) - 3, "three models are left at least"
    assert signs == {True, False}


def _binomial(sizes: Any, accuracy: Any, items: int = 5153) -> float:
    """The exponent of −ln p in size by greatest likelihood, by another road than the book's."""
    x, hits = np.log(sizes) - np.log(sizes).mean(), np.rint(accuracy * items)

    def loss(at: Any) -> float:
        cost = np.exp(at[0] - at[1] * x)
        return float((hits * cost - (items - hits) * np.log(-np.expm1(-cost))).sum())

    return float(minimize(loss, [0, 0.1], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9}).x[1])


@EVERYWHERE
def test_longer_training_turns_the_line(browser: Browser, book: Path, where: dict[str, Any]) -> None:
    lambada = pd.read_csv(ROOT / "data" / "outside" / "lambada.csv")
    own = lambada[(lambada["family"] == "Pythia") & (lambada["shots"] == 0)]
    models = pd.read_csv(ROOT / "data" / "published" / "models.csv").set_index("name")["non_embedding_params"]
    accepted = results.read_book(Project().expected)["training"]
    with front(browser, book, **where) as tab:
        chart = tab.locator("[data-chart=longer]")
        time = chart.get_by_role("slider")
        assert told(chart, "alpha") == pytest.approx(accepted["alpha.early"].value, rel=1e-9)
        line = chart.locator(".rbp-explorer-law").last
        before = line.get_attribute("d")
        for key, step in (("End", 143000), ("ArrowLeft", 133000)):
            press(tab, time, key)
            at = own[own["step"] == step]
            right = _binomial(at["model"].map(models).to_numpy(float), at["accuracy"].to_numpy(float))
            assert told(chart, "alpha") == pytest.approx(right, rel=1e-5)
        assert line.get_attribute("d") != before
        choose(chart.get_by_role("radio", name="Our small"), where)
        assert told(chart, "alpha") == pytest.approx(accepted["alpha.first"].value, rel=1e-9)
        press(tab, time, "End")
        assert told(chart, "alpha") == pytest.approx(accepted["alpha.last"].value, rel=1e-9)
        expect(time).to_have_attribute("aria-valuetext", "8 million tokens of training: α = 0.040")


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
        says = "rows => rows.slice(0, 3).map(row => row.cells[1].firstChild.textContent.trim())"
        rows = tab.locator("#claims-argument tr[id^=claim-]").evaluate_all(says)
        tab.goto((book / PAGE).as_uri())
        items = tab.locator("section#the-verdict > ul > li").all_inner_texts()
    assert [" ".join(each.split()) for each in items] == rows
    assert len(rows) == 3
