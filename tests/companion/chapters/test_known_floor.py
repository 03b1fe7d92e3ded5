"""A known floor, on made-up models whose law is known."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion.chapters.training import known_floor
from companion.chapters.training.known_floor import KS, SIZE, TOKENS
from ladder import known
from rbp.errors import DataError

RUNGS = {"10k": 9_872, "22k": 21_720, "59k": 59_240, "150k": 150_080, "390k": 393_640}
BUDGETS = (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)
FLOORS = {None: 3.6, 1: 1.2, 10: 0.46, 100: 0.14, 1000: 0.019}


def product(size: float, tokens: float) -> float:
    return 0.4 * (size / 1e5) ** -0.1 * (tokens / 2e6) ** -0.15


def total(size: float, tokens: float) -> float:
    return 0.3 * (size / 1e5) ** -0.3 + 0.2 * (tokens / 2e6) ** -0.5


def ship(folder: Path, excess, rungs=RUNGS, budgets=BUDGETS) -> Path:
    """Models of which each y is E (1 + excess), on three documents that are alike but for their ease."""
    records, tables = [{"name": known.SOURCE, "family": "ngrams", "rung": "3", "size": 1}], []
    cells = [(known.SOURCE, 0.0)]
    for rung, size in rungs.items():
        for budget in budgets:
            name = f"neox-{rung}-at-{budget / 1e6:g}m"
            records.append({"name": name, "family": "neox", "rung": rung, "size": size, "budget": budget})
            cells.append((name, excess(size, budget)))
    for name, above in cells:
        rows = {"model": name, "document": [0, 1, 2], "tokens": 256}
        rows |= {"nll": 256.0, "cross_entropy": 256 * FLOORS[None] * (1 + above) * np.array([0.9, 1.0, 1.1])}
        masses = {k: 256 * np.exp(-floor * (1 + above)) for k, floor in FLOORS.items() if k}
        tables.append(pd.DataFrame(rows | {f"mass_{k}": mass for k, mass in masses.items()}))
    folder.mkdir()
    (folder / known.RECORDS).write_text(json.dumps({"models": records}))
    pd.concat(tables).to_parquet(folder / known.TABLE)
    return folder


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return known_floor.points(ship(tmp_path_factory.mktemp("sums") / "known", total))


@pytest.fixture(scope="module")
def noisy(sums: pd.DataFrame) -> pd.DataFrame:
    """The same with errors of a hundredth of a per cent."""
    away = np.exp(1e-4 * np.random.default_rng(1).normal(size=len(sums)))
    value = sums["value"] * away
    return sums.assign(value=value, excess=value - sums["floor"])


def analysed(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    laws = known_floor.by_law(known_floor.forecasts(table))
    return known_floor.lines(table), known_floor.floors(table), laws


def test_points_are_the_measures_above_the_sources_own(sums: pd.DataFrame) -> None:
    assert len(sums) == len(KS) * len(RUNGS) * len(BUDGETS)
    for row in sums.itertuples():
        floor = FLOORS[None if pd.isna(row.k) else row.k]
        assert row.floor == pytest.approx(floor)
        assert row.excess == pytest.approx(floor * total(row.size, row.training_tokens))
    loss = sums[sums["k"].isna()].iloc[0]
    half = 4.302653 * 0.1 / np.sqrt(3)  # of ln E, Student's of 2 degrees
    assert [loss.floor_low, loss.floor_high] == pytest.approx([3.6 * np.exp(-half), 3.6 * np.exp(half)], rel=0.01)


def test_a_product_above_the_floor_is_straight_and_a_sum_is_not(tmp_path: Path, sums: pd.DataFrame) -> None:
    straight = known_floor.lines(known_floor.points(ship(tmp_path / "known", product)))
    assert len(straight) == 5 * (5 + 5)
    assert straight["away"].max() < 1e-6
    assert straight["bend"].abs().max() < 1e-8
    assert straight.loc[straight["along"] == SIZE, "exponent"].to_numpy() == pytest.approx(0.1)
    assert straight.loc[straight["along"] == TOKENS, "exponent"].to_numpy() == pytest.approx(0.15)
    bent = known_floor.lines(sums)
    assert bent["bend"].min() > 0.005
    told = known_floor.told(sums, bent, known_floor.floors(sums))
    assert [told[f"known.{name}"] for name in ("size.lines", "size.straight", "tokens.straight")] == [25, 0, 0]
    few = known_floor.lines(sums[sums["training_tokens"] < 4e6])
    assert few.loc[few["along"] == TOKENS, "bend"].isna().all()


def test_the_fitted_floor_of_a_sum_is_the_true_one_and_of_a_product_is_not(tmp_path: Path, noisy: pd.DataFrame) -> None:
    found = known_floor.floors(noisy)
    assert found["ratio"].to_numpy() == pytest.approx(1, abs=0.05)
    assert found["told"].sum() >= 3
    more = np.exp(0.03 * np.random.default_rng(2).normal(size=len(noisy)))
    wide = known_floor.floors(noisy.assign(value=noisy["value"] * more))
    assert (wide["inside"].sum(), wide["told"].sum()) == (5, 0)
    other = known_floor.points(ship(tmp_path / "known", product))
    wrong = known_floor.floors(other)
    assert not wrong["inside"].any()
    assert (wrong["low"] <= wrong["fitted"]).all()
    assert (wrong["fitted"] <= wrong["high"]).all()


def test_the_law_that_made_the_models_foretells_what_is_hidden(sums: pd.DataFrame) -> None:
    found = known_floor.forecasts(sums)
    errors = found.set_index(["law", "cut"])["error"]
    assert errors["sum above the true floor"].max() < 1e-4
    assert errors["sum with a fitted floor"].max() < 1e-3
    assert errors["product above the true floor"].min() > 0.1
    assert set(found.loc[found["cut"] == SIZE, "cells"]) == {2 * 5}
    assert set(found.loc[found["cut"] == TOKENS, "cells"]) == {2 * 5}
    laws = known_floor.by_law(found).set_index("law")
    assert laws[TOKENS].idxmin() in ("sum above the true floor", "sum with a fitted floor")
    assert np.isnan(laws.loc["power with a fitted floor", TOKENS])  # three budgets determine no floor
    own = found[(found["law"] == "product") & (found["cut"] == SIZE)]["error"]
    assert laws.loc["product", SIZE] == own.median()
    few = known_floor.forecasts(sums[sums["training_tokens"] < 4e6])
    assert set(few["cut"]) == {SIZE}


def test_every_prediction_is_judged_where_its_cells_are_there(noisy: pd.DataFrame) -> None:
    judged = known_floor.foretold(noisy, *analysed(noisy))
    assert len(judged) == 44
    missing = judged[judged["found"].isna()]
    assert missing["what"].tolist() == ["y, CE, 1m, D = 8 M"]
    value = judged[judged["what"] == "y, k = 1, 150k, D = 8 M"].iloc[0]
    assert value.found == pytest.approx(1.2 * (1 + total(150_080, 8e6)), rel=1e-3)
    assert value.inside == (value.low <= value.found <= value.high)
    along = judged[judged["what"] == "exponent in tokens, CE, 150k"].iloc[0]
    y = [np.log(total(150_080, d)) for d in BUDGETS[2:]]
    assert along.found == pytest.approx(-np.polyfit(np.log(BUDGETS[2:]), y, 1)[0], rel=0.02)
    few = noisy[noisy["training_tokens"] < 4e6]
    early = known_floor.foretold(few, *analysed(few))
    assert early.loc[early["what"].str.contains("cut of tokens"), "found"].isna().all()


def test_a_page_can_be_made_of_few_models(noisy: pd.DataFrame) -> None:
    table = noisy[(noisy["training_tokens"] < 4e6) & (noisy["size"] < 2e5)]
    forecasts, (bent, found, laws) = known_floor.forecasts(table), analysed(table)
    told = known_floor.told(table, bent, found)
    assert (told["known.models"], told["known.cells"]) == (4 * 3, 6 * 5)
    figure = known_floor.floor_shown(table, found, laws, level=0.95)["figure"]
    assert [len(figure.single(key).axes) for key in figure.keys] == [1, 1, 1]
    assert len(known_floor.laws_shown(forecasts, found, bent, level=0.95)["table"]) == len(KS)


def test_what_is_missing_or_malformed_is_said(tmp_path: Path, sums: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="no models of a known floor"):
        known_floor.points(tmp_path / "none")
    with pytest.raises(DataError, match="so few models"):
        known_floor.floors(sums[sums["size"] < 5e4])
    path = tmp_path / "floor.toml"
    path.write_text("level = [")
    with pytest.raises(DataError, match="no predictions"):
        known_floor.foretold(sums, sums, sums, sums.assign(law=""), path=path)
