import numpy as np
import pandas as pd
import pytest

from companion.chapters.appendix import ladder

SIZES = pd.Series({"s": 1_000, "m": 10_000, "l": 1_000_000})


def row(rung, loss, rate=None, seed=0, budget=2_000_000, **other):
    name = f"neox-{rung}-at-{budget / 1e6:g}m" + (f"-rate{rate}" if rate else "") + (f"-seed{seed}" if seed else "")
    about = {"model": name, "family": "neox", "rung": rung, "seed": seed, "budget": budget, "rate": rate or 0.01}
    return about | {"batch": 8, "distinct": np.nan, "loss": loss} | other


def table():
    grid, best = {"s": 5.0, "m": 4.5, "l": 4.2}, {"s": 5.0, "m": 4.5, "l": 4.0}
    rows = [row(rung, grid[rung]) for rung in grid]
    rows += [row(rung, best[rung] + (rung != "l") * 0.1, 0.02) for rung in grid]
    rows += [row(rung, best[rung] + 0.3, 0.005) for rung in grid]
    rows += [row("s", 5.01, seed=1), row("l", 1.0, family="lstm")]
    rows += [row("s", 1.0, batch=4, model="b"), row("m", 1.0, distinct=7, model="d")]
    return pd.DataFrame([*rows, row("s", 4.7, budget=8_000_000), row("s", 4.8, 0.02, budget=8_000_000)])


def test_the_exponents_and_their_bend_are_those_by_hand():
    found = ladder.compare_rates(table(), SIZES).set_index("what")
    assert found.index.tolist() == ["s to m", "m to l", "bend at m"]
    assert set(found["budget"]) == {2_000_000}
    first, grid, best = np.log(5 / 4.5) / np.log(10), np.log(4.5 / 4.2) / np.log(100), np.log(4.5 / 4) / np.log(100)
    np.testing.assert_allclose(found["grid"], [first, grid, first - grid])
    np.testing.assert_allclose(found["best"], [first, best, first - best])
    chance = np.std(np.log([5, 5.01]), ddof=1)
    assert found["seeds"]["s to m"] == pytest.approx(chance * np.sqrt(2) / np.log(10))
    ends = 1 / np.log(10), 1 / np.log(10) + 1 / np.log(100), 1 / np.log(100)
    assert found["seeds"]["bend at m"] == pytest.approx(chance * np.linalg.norm(ends))
    assert found["sure"].tolist() == [False, True, True]
    statistics = ladder.rate_statistics(found)
    assert (statistics["rates.rows"], statistics["rates.sure"]) == (3, 2)
    assert statistics["rates.moved"] == pytest.approx(best - grid)
