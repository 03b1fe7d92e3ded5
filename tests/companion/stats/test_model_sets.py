"""Fits by threshold: which models serve where, the interval of R², and the steps of the exponent."""

import numpy as np
import pandas as pd
import pytest
from draws import loop_and_slow, may_be
from scipy.stats import nct

from companion.stats.compare import paired_exponents
from companion.stats.subsets import chains, fit_thresholds, r_squared_interval, set_points, steps
from rbp.errors import ParameterError
from rbp.laws.power import fit_power_law

SIZES = [10**7, 10**8, 10**9, 10**10, 10**11]


def _table(alpha: dict[int, float], missing: dict[int, set[int]] | None = None) -> pd.DataFrame:
    """One family of five models: −ln RBP_k = S^(−alpha[k]), a little off the line; `missing[k]` are left out."""
    wobble = [1.02, 0.99, 1.01, 0.97, 1.0]
    rows = [
        ("d", "F", f"m{i}", size, k, size**-exponent * wobble[(i * (k + 1)) % 5])
        for k, exponent in alpha.items()
        for i, size in enumerate(SIZES)
        if i not in (missing or {}).get(k, set())
    ]
    return pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "k", "value"])


def test_sets_never_mix_models() -> None:
    """k = 2 lacks one model: it serves only the common set, and k = 500 only the set of all."""
    sets = set_points(_table({1: 0.1, 2: 0.12, 10: 0.15, 500: 0.2}, {2: {4}}))
    served = {key: set(rows["model"]) for key, rows in sets.groupby(["models", "k"])}
    every = {f"m{i}" for i in range(5)}
    assert served == {("all", k): every for k in (1, 10, 500)} | {("common", k): every - {"m4"} for k in (1, 2, 10)}


def test_fits_are_those_of_the_set() -> None:
    table = _table({1: 0.1, 2: 0.12}, {2: {4}})
    fits = fit_thresholds(table).set_index(["models", "k"])
    own = table[(table["k"] == 1) & (table["model"] != "m4")]
    assert fits.loc[("common", 1), "alpha"] == fit_power_law(own["size"], own["value"]).alpha
    assert fits.loc[("all", 1), "n"] == 5
    assert ("all", 2) not in fits.index


@pytest.mark.parametrize("draws", loop_and_slow(100, 2000))
@pytest.mark.parametrize(("sigma", "most"), [(0.15, 0.9), (0.4, 1)])
def test_r_squared_interval_covers(sigma: float, most: float, draws: int) -> None:
    """Simulated at fixed sizes: it holds the population's R² as often as it says, or more where the sign is unsure."""
    rng = np.random.default_rng(3)
    x = np.log(np.array(SIZES, dtype=float))
    x -= x.mean()
    truth = (signal := 0.1**2 * (x**2).sum() / sigma**2) / (signal + x.size)
    y = -0.1 * x + rng.normal(0, sigma, (draws, x.size))
    r_squared = (y @ x) ** 2 / (x @ x) / ((y - y.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    ends = np.array([r_squared_interval(float(value), x.size, level=0.9) for value in r_squared])
    assert may_be(np.sum((ends[:, 0] <= truth) & (truth <= ends[:, 1])), draws, 0.9, most)


@pytest.mark.parametrize(("r_squared", "n"), [(0.5, 10), (0.9, 4), (0.97, 24)])
def test_r_squared_intervals_ends_are_where_a_tail_is_left(r_squared: float, n: int) -> None:
    t = np.sqrt((n - 2) * r_squared / (1 - r_squared))
    ends = np.array(r_squared_interval(r_squared, n, level=0.9))
    tails = nct.cdf(t, n - 2, np.sqrt(n * ends / (1 - ends)))
    assert tails == pytest.approx([0.95, 0.05], abs=1e-8)


@pytest.mark.parametrize("noise", [0.02, 0.2, 0.6, 1.5])
def test_r_squared_interval_reaches_0_where_alpha_does(noise: float) -> None:
    rng = np.random.default_rng(int(100 * noise))
    for _ in range(20):
        fit = fit_power_law(SIZES, np.array(SIZES, dtype=float) ** -0.1 * np.exp(rng.normal(0, noise, 5)))
        low, high = r_squared_interval(fit.r_squared, 5)
        assert (low == 0) == (fit.alpha_low <= 0 <= fit.alpha_high)
        assert low <= high < 1


@pytest.mark.parametrize(("r_squared", "n"), [(1.0, 5), (-0.1, 5), (0.5, 2)])
def test_r_squared_interval_refuses(r_squared: float, n: int) -> None:
    with pytest.raises(ParameterError):
        r_squared_interval(r_squared, n)


def test_steps_are_paired_differences() -> None:
    table = _table({1: 0.1, 10: 0.2, 100: 0.15})
    found = steps(table)
    at = {k: rows.sort_values("model") for k, rows in table.groupby("k")}
    paired = paired_exponents(at[10]["size"], at[10]["value"], at[1]["value"])
    first = found.iloc[0]
    assert (first["k"], first["next_k"], first["difference"], first["low"]) == (1, 10, paired.difference, paired.low)
    summed = chains(found).iloc[0]
    assert (summed["steps"], summed["falling"], summed["surely_falling"]) == (2, 1, 1)
    assert chains(steps(table[table["k"] == 1])).empty
    one = table[table["k"] == 1]
    assert steps(pd.concat([one, one.assign(k=10, value=one["value"] / 2)])).empty  # no scatter about no change
