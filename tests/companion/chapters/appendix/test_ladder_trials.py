import numpy as np
import pandas as pd
import pytest

from companion.chapters.appendix import ladder


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
    rows += [row("s", 4.9, batch=4, model="s-batch4"), row("m", 4.6, distinct=7, model="d")]
    return pd.DataFrame([*rows, row("s", 4.7, budget=8_000_000), row("s", 4.8, 0.02, budget=8_000_000)])


def test_losses_are_compared_with_the_grid_s_by_hand():
    found = ladder.compare_trials(table())
    assert found["rung"].tolist() == ["l", "l", "m", "m", "m", "s", "s", "s", "s"], "with a run of the grid"
    largest = found[found["rung"] == "l"].set_index("what")["difference"]
    assert largest.to_dict() == pytest.approx(
        {"0.5 × the rate": np.log(4.3 / 4.2) * 100, "2 × the rate": np.log(4 / 4.2) * 100}
    )
    assert found["seeds"].to_numpy() == pytest.approx(100 * np.sqrt(2) * np.std(np.log([5, 5.01]), ddof=1))
    statistics = ladder.trial_statistics(found)
    assert statistics["trials.rates"] == 7
    assert statistics["trials.best"] == pytest.approx(100 * np.log(4.2 / 4))
    assert statistics["trials.repeated"] == pytest.approx(100 * np.log(4.6 / 4.5))
