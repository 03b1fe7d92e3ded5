"""The synthesis: known laws, misses and dependence come out."""

import numpy as np
import pandas as pd
import pytest

from companion.chapters import advice

SIZES = np.geomspace(1e6, 1e10, 6)


def measured(alphas, entropy=0.08):
    """A measurement table of one family on Wikipedia: power laws of −ln RBP_k by k, and of CE."""
    base = {"dataset": "wikipedia", "family": "Pythia", "model": [f"m{i}" for i in range(6)], "size": SIZES}
    laws = [("neg_log_rbp", k, alpha) for k, alpha in alphas.items()] + [("cross_entropy", pd.NA, entropy)]
    tables = [
        pd.DataFrame(base | {"metric": metric, "k": k, "value": 2 * (SIZES / SIZES[0]) ** -alpha})
        for metric, k, alpha in laws
    ]
    return pd.concat(tables, ignore_index=True).astype({"k": "Int64"})


LAW = measured({1: 0.05, 10: 0.1, 100: 0.2})


def test_a_floor_makes_forecasts_too_optimistic_and_a_pure_law_does_not():
    pure = advice.forecast_largest(LAW)
    assert pure["k"].unique().tolist() == [pd.NA, 1, 10, 100]
    assert set(pure["ahead"].round(6)) == {round(SIZES[4] / SIZES[3], 6), round(SIZES[5] / SIZES[3], 6)}
    np.testing.assert_allclose(pure["error"], 0, atol=1e-9)
    ranks_alone = advice.forecast_largest(pd.concat([LAW, LAW[LAW["k"].notna()].assign(family="OPT")]))
    assert set(ranks_alone.loc[ranks_alone["family"] == "OPT", "k"]) == {1, 10, 100}, "a family without CE counts too"
    found = advice.forecast_largest(LAW.assign(value=LAW["value"] + 0.5))
    assert len(found) == 8  # two models hidden, four metrics
    assert (found["error"] < -0.1).all()


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_tokens_in_a_row_against_independent_ones(power):
    """−ln p grows as N to a power; of 500 in a row none succeeds."""
    windows = pd.DataFrame({"k": [1, 10, 1000], "one": [0.5, 0.1, 0.01]}).merge(
        pd.DataFrame({"n": [1, 2, 10, 100, 500]}), how="cross"
    )
    windows = windows.assign(model="m", p=np.exp(-windows["one"] * windows["n"] ** power) * (windows["n"] < 500))
    row = advice.compare_windows(windows, "m")
    assert row["k"].unique().tolist() == [1, 10]  # k = 1000 is no small k
    assert row["n"].max() == 100  # nothing is known where no window succeeded
    np.testing.assert_allclose(row["measured"] / row["independent"], row["n"] ** (power - 1))
    assert advice.times_as_often(row, k=1, n=10) == pytest.approx(np.exp(0.5 * (10 - 10**power)))
