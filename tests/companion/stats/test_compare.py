"""Laws compared: in pairs, for equivalence, ahead of what they were fitted to, and from k to k."""

import numpy as np
import pandas as pd
import pytest
from draws import loop_and_slow, may_be
from scipy.optimize import brentq
from scipy.stats import linregress
from scipy.stats import t as t_distribution

from companion.stats import cells
from companion.stats.compare import equivalence, paired_exponents
from rbp.laws.power import fit_power_law

SIZES = np.geomspace(1e6, 1e10, 10)


def test_paired_exponents_are_the_line_of_the_log_ratio():
    rng = np.random.default_rng(5)
    first, second = (4 * SIZES**-a * np.exp(0.02 * rng.normal(size=10)) for a in (0.09, 0.08))
    got = paired_exponents(SIZES, first, second)
    line = linregress(np.log(SIZES), np.log(first / second))
    assert got.difference == pytest.approx(-line.slope, rel=1e-10)
    assert got.difference == pytest.approx(got.alpha_first - got.alpha_second, abs=1e-12)
    assert (got.p, got.df) == (pytest.approx(line.pvalue, rel=1e-8), 8)
    assert got.t == pytest.approx(-line.slope / line.stderr, rel=1e-9)
    assert got.low < got.difference < got.high


def pair(rng, ratio, sd=0.01):
    laws = ((4, 0.08 * ratio), (2, 0.08))
    first, second = (a * SIZES**-alpha * np.exp(sd * rng.normal(size=10)) for a, alpha in laws)
    shared = np.exp(0.05 * rng.normal(size=10))
    return first * shared, second * shared


def test_the_interval_of_a_ratio_of_exponents_is_where_t_tests_reject():
    """Fieller's bounds, found by root finding: the slope of ln first − ρ ln second is t standard errors from 0."""
    first, second = pair(np.random.default_rng(9), 1.05)
    got = equivalence(SIZES, first, second, level=0.975)
    t = t_distribution.ppf(0.975, 8)

    def excess(rho):
        line = linregress(np.log(SIZES), np.log(first) - rho * np.log(second))
        return abs(line.slope) / line.stderr - t

    middle = 1 + got.relative
    slopes = [linregress(np.log(SIZES), np.log(values)).slope for values in (first, second)]
    assert middle == pytest.approx(slopes[0] / slopes[1])
    assert got.low == pytest.approx(brentq(excess, middle - 1, middle) - 1, abs=1e-9)
    assert got.high == pytest.approx(brentq(excess, middle, middle + 1) - 1, abs=1e-9)
    assert got.df == pytest.approx(8)


@pytest.mark.parametrize("draws", loop_and_slow(100, 2000))
def test_what_lies_at_the_margin_passes_for_equivalent_as_often_as_the_level_says(draws):
    rng = np.random.default_rng(10)
    at = [equivalence(SIZES, *pair(rng, 1.1)) for _ in range(draws)]
    assert may_be(sum(one.within for one in at), draws, 0.05)
    assert may_be(sum(one.outside for one in at), draws, 0.05)
    near, below = (equivalence(SIZES, *pair(rng, ratio)) for ratio in (1.02, 0.8))
    assert (near.within, near.outside) == (True, False)
    assert (below.within, below.outside) == (False, True)
    first, second = pair(np.random.default_rng(12), 1.0)
    noise = np.exp(np.random.default_rng(13).normal(size=10))
    flat = equivalence(SIZES, first, second * SIZES**0.08 * noise)  # the second exponent may be zero
    assert np.isnan([flat.low, flat.high]).all()
    assert (flat.within, flat.outside) == (False, False)


def test_the_held_out_are_the_largest_whatever_the_order():
    rng = np.random.default_rng(1)
    y = 4 * SIZES**-0.1 * np.exp(0.02 * rng.normal(size=10))
    shuffle, held = rng.permutation(10), slice(8, None)
    about = {"dataset": "d", "k": 1, "family": "F", "model": list("abcdefghij")}
    table = pd.DataFrame(about | {"size": SIZES, "value": y}).iloc[shuffle]
    rows = cells.forecasts(table, holdout=2, holdout_few=1, level=0.9)
    ahead = fit_power_law(SIZES[:8], y[:8], level=0.9).predict(SIZES[held])
    assert rows["model"].tolist() == ["i", "j"]
    np.testing.assert_allclose(rows["predicted"], ahead["value"], rtol=1e-12)
    np.testing.assert_allclose(rows["high"], ahead["high"], rtol=1e-10)
    np.testing.assert_allclose(rows["error"], ahead["value"] / y[held] - 1, atol=1e-12)
    assert rows["covered"].tolist() == ((ahead["low"] <= y[held]) & (y[held] <= ahead["high"])).tolist()
