"""The synthesis: known laws, misses and dependence come out, and each panel's verdict follows from what it draws."""

import numpy as np
import pandas as pd
import pytest

from companion.chapters import advice
from companion.chapters.cross_entropy import pair_metrics, straight_lines

SIZES = np.geomspace(1e6, 1e10, 6)


def measured(family, rank, entropy):
    """A measurement table of one family on Wikipedia: −ln RBP_k by k, and CE."""
    base = {"dataset": "wikipedia", "family": family, "model": [f"{family}-{i}" for i in range(6)], "size": SIZES}
    tables = [pd.DataFrame(base | {"metric": "neg_log_rbp", "k": k, "value": value}) for k, value in rank.items()]
    tables.append(pd.DataFrame(base | {"metric": "cross_entropy", "k": pd.NA, "value": entropy}))
    return pd.concat(tables, ignore_index=True).astype({"k": "Int64"})


def power(alpha):
    return 2 * (SIZES / SIZES[0]) ** -alpha


LAW = measured("Pythia", {1: power(0.05), 10: power(0.1), 100: power(0.2)}, power(0.08))


OTHER = measured("OPT", {1: power(0.05), 10: power(0.1), 100: power(0.2)}, power(0.08)).query(
    "metric != 'cross_entropy'"
)


def windows(power):
    """Windows of a model whose −ln p grows as N to a power; of 500 none succeeds."""
    rows = pd.DataFrame([(k, one) for k, one in ((1, 0.5), (10, 0.1), (1000, 0.01))], columns=["k", "one"])
    rows = rows.merge(pd.DataFrame({"n": [1, 2, 10, 100, 500]}), how="cross")
    return rows.assign(model="m", p=np.exp(-rows["one"] * rows["n"] ** power) * (rows["n"] < 500))


def test_lines_start_at_one_and_have_the_exponents_that_were_put_in():
    found = advice.fit_lines(LAW, {"Pythia": (1, 100)})
    assert found.groupby("k")["alpha"].first().to_dict() == pytest.approx({1: 0.05, 100: 0.2})
    assert found.groupby("k")["share"].first().to_list() == [1, 1]
    np.testing.assert_allclose(found["line"], found["share"])
    np.testing.assert_allclose(found[found["k"] == 100]["share"], (SIZES / SIZES[0]) ** -0.2)


def test_a_floor_makes_forecasts_too_optimistic_and_a_pure_law_does_not():
    pure = advice.forecast_largest(LAW)
    assert pure["k"].unique().tolist() == [pd.NA, 1, 10, 100]
    ranks_alone = advice.forecast_largest(pd.concat([LAW, OTHER]))
    assert set(ranks_alone.loc[ranks_alone["family"] == "OPT", "k"]) == {1, 10, 100}, "a family without CE counts too"
    assert set(pure["ahead"].round(6)) == {round(SIZES[4] / SIZES[3], 6), round(SIZES[5] / SIZES[3], 6)}
    np.testing.assert_allclose(pure["error"], 0, atol=1e-9)
    floor = LAW.assign(value=LAW["value"] + 0.5)
    found = advice.forecast_largest(floor)
    assert len(found) == 8  # two models hidden, four metrics
    assert (found["error"] < -0.1).all()
    assert (found["hidden"] == 2).all()
    few = advice.forecast_largest(floor[floor["size"] >= floor["size"].drop_duplicates().nlargest(5).min()])
    assert (few["hidden"] == 1).all()


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_tokens_in_a_row_against_independent_ones(power):
    row = advice.compare_windows(windows(power), "m")
    assert row["k"].unique().tolist() == [1, 10]  # k = 1000 is no small k
    assert row["n"].max() == 100  # nothing is known where no window succeeded
    np.testing.assert_allclose(row["measured"] / row["independent"], row["n"] ** (power - 1))
    assert advice.times_as_often(row, k=1, n=10) == pytest.approx(np.exp(0.5 * (10 - 10**power)))


def test_each_title_follows_from_the_points():
    def titles(table, power):
        pairs = pair_metrics(table)
        lines, ahead = advice.fit_lines(table, {"Pythia": (1, 10, 100)}), advice.forecast_largest(table)
        row = advice.compare_windows(windows(power), "m")
        figure = advice.plot_argument(lines, ahead, pairs, straight_lines(pairs), row)
        return [figure.single(key).axes[0].get_title("left") for key in figure.keys]

    close = titles(LAW.assign(value=LAW["value"] - 0.1), 1.0)
    assert close[:2] == ["A power at small k", "Forecasts ahead are too pessimistic"]
    assert close[3] == "Tokens in a row are nearly independent"
    jagged = np.exp(0.3 * np.array([1, -1, 1, -1, -2, 3]))  # the largest models lie above the others' line
    rough = titles(LAW.assign(value=LAW["value"] * np.tile(jagged, 4) / 4), 0.5)
    assert (rough[0], rough[3]) == ("Nearly a power at small k", "Tokens in a row are not independent")
    floor = LAW.assign(value=LAW["value"] + 0.5)
    assert titles(floor, 0.5)[1] == "Forecasts ahead are too optimistic"
    other = OTHER.assign(value=OTHER["value"] - 0.1)
    assert titles(pd.concat([floor, other]), 0.5)[1] == "Forecasts ahead miss in both directions"
