"""The fit explorer in a browser, from a file: its numbers are those of Python, and of the command that it shows."""

import json
import shlex
from contextlib import closing
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pytest
from commands import here
from draws import loop_and_slow
from playwright.sync_api import expect
from tabs import write_page

from companion.chapters.forecasts import explorer
from rbp.errors import FitError
from rbp.laws.power import fit_power_law
from rbp.measurements import open_source

SCRIPTS = ("fits.js", "charts.js", "explorer.js")
READ = """() => [...document.querySelectorAll('[aria-label="The fits"] tbody tr')].map(row =>
  [row.dataset.family, [...row.querySelectorAll('data')].map(each => [each.dataset.name, each.value])])"""
GO = """hash => new Promise(done => {
  addEventListener('hashchange', () => done(), {once: true}); location.hash = hash; })"""


@pytest.fixture(scope="module")
def source():
    return open_source("published, ladder, outside")


@pytest.fixture(scope="module")
def address(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("explorer")
    return write_page(folder, explorer(source), *SCRIPTS)


def shown(tab, **choice):
    """The numbers of the table by family, after `choice` was put into the address; none without a choice."""
    if choice:
        tab.evaluate(GO, "fit?" + urlencode(choice, doseq=True))
    return {family: {name: float(value) for name, value in row} for family, row in tab.evaluate(READ)}


def close(found, right, tolerance):
    return found == right or bool(np.isfinite(right) and abs(found - right) <= tolerance * max(abs(right), 1e-3))


def agree(found, fitted, forecast, *, tolerance):
    for name, value in found.items():
        if name.startswith("forecast") or name == "value":  # as it is fitted: of a wide interval, the logarithm
            right = forecast[name.removeprefix("forecast_")]
            with np.errstate(divide="ignore"):  # its ends may be 0 and ∞, or so far out that they say as little
                logs = np.log([value, right])
            assert close(*logs, tolerance if abs(logs[1]) < 100 else 1e-3), (name, value, right)
        else:
            assert close(value, fitted[name], tolerance), (name, value, fitted[name])


def drawn(points, count):
    rng = np.random.default_rng(7)

    def pick(values):
        return values[rng.integers(len(values))]

    cells = [(key, each) for key, each in points.groupby(["dataset", "family", "metric", "k"], dropna=False)]
    for _ in range(count):
        (dataset, family, metric, k), cell = pick([(key, each) for key, each in cells if len(each) >= 3])
        choice = {"dataset": dataset, "family": family, "metric": metric} | ({} if pd.isna(k) else {"k": int(k)})
        choice |= {"level": pick([0.5, 0.95, 0.99]), "at": pick([1e4, 3e9, 1e12]), "hide": pick([0, 0, 1, 3])}
        without = rng.choice(cell["model"], pick([0, 0, 1, 2]), replace=False).tolist() if len(cell) > 5 else []
        yield choice | {"without": without}


@pytest.mark.parametrize("count", loop_and_slow(10, 500))
def test_its_fits_are_those_of_python(tab, source, count):
    points, fitted = source.table, 0
    for i, choice in enumerate(drawn(points, count)):
        own = (points["dataset"] == choice["dataset"]) & (points["family"] == choice["family"])
        own &= (points["metric"] == choice["metric"]) & (points["k"].fillna(0) == choice.get("k", 0))
        chosen = points[own & ~points["model"].isin(choice["without"])].sort_values(["size", "model"])
        seen = chosen.iloc[: max(len(chosen) - choice["hide"], 3)]
        found = shown(tab, n=i, **choice)[choice["family"]]
        try:
            right = fit_power_law(seen["size"].to_numpy(), seen["value"].to_numpy(), level=choice["level"])
        except FitError:
            assert found == {}, choice
            continue
        agree(found, right.as_dict(), right.predict(choice["at"]).iloc[0].to_dict(), tolerance=1e-9)
        fitted += 1
    assert fitted > count / 2


def test_the_command_that_it_shows_gives_its_numbers_and_its_address_holds_what_was_chosen(tab, tmp_path, browser):
    tab.get_by_label("Dataset").select_option("humaneval")
    tab.get_by_label("k", exact=True).select_option("100")
    tab.get_by_label("Qwen2.5").check()
    tab.get_by_label("Level").select_option("0.9")
    tab.get_by_label("Hide the largest").press("ArrowRight")
    tab.wait_for_function("location.hash.includes('level=0.9') && location.hash.includes('hide=1')")
    found = shown(tab)
    with closing(browser.new_page()) as again:
        again.goto(tab.url)
        assert shown(again) == found
    for line in tab.get_by_label("The command").inner_text().splitlines():
        words = shlex.split(line)
        done = here(*words[1:], "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        printed = json.loads(done.stdout)
        agree(found.pop(words[words.index("--family") + 1]), printed, printed["forecast"], tolerance=1e-9)
    assert found == {}


def test_names_are_text(browser, tmp_path):
    evil = ["<script>window.hurt = 1</script>", "<img src=x onerror='window.hurt = 1'>", "__proto__", "constructor"]
    rows = [
        (evil[1], model, evil[i % 2 + 2], 10 ** (5 + i), "neg_log_rbp", 10, (5 + i) ** -1.5)
        for i, model in enumerate([*evil, *"abcd"])
    ]
    columns = ["dataset", "model", "family", "size", "metric", "k", "value"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "mine.csv", index=False)
    page = write_page(tmp_path, explorer(open_source(tmp_path / "mine.csv")), *SCRIPTS)
    with closing(browser.new_page()) as tab:
        tab.goto(page)
        for family in ("__proto__", "constructor"):
            tab.get_by_role("checkbox", name=family, exact=True).check()
        tab.wait_for_function("document.querySelectorAll('[aria-label=\"The fits\"] tbody tr').length == 2")
        assert set(shown(tab)) == {"__proto__", "constructor"}
        tab.locator(".rbp-explorer-point").first.click()
        expect(tab.get_by_label("The command")).to_contain_text("'<script>window.hurt = 1</script>'")
        assert tab.evaluate("[window.hurt, document.querySelectorAll('.rbp-explorer img').length]") == [None, 0]
