"""The exponent in k: the preprint's fits, the bend, and what sampling noise allows (against simulated ranks)."""

import numpy as np
import pandas as pd
import pytest
from draws import loop_and_slow, may_be
from scipy.stats import linregress

from companion.stats.law_in_k import (
    bend,
    enough_thresholds,
    fit_in_k,
    sampling_covariance,
    sampling_test,
    sampling_tests,
)
from rbp.errors import DataError, FitError
from rbp.measurements import open_source, select

K = np.array([1, 2, 3, 5, 7, 10, 18, 30, 50, 78, 100])


def model(value, *, name="a", size=1000, k=K):
    return pd.DataFrame(
        {"dataset": "d", "family": "f", "model": name, "size": size, "metric": "neg_log_rbp", "k": k, "value": value}
    )


@pytest.fixture(scope="module")
def published_points():
    table = select(open_source("published").table, metric="neg_log_rbp")
    return enough_thresholds(table[table.k <= 100], 6)


def test_too_few_thresholds_are_called_thresholds(published_points):
    few = published_points[published_points.k.isin([1, 10])]
    with pytest.raises(DataError, match=r"−ln RBP_k at 3 thresholds.*\nGive a source with more values of k"):
        fit_in_k(few)
    with pytest.raises(DataError, match=r"at 12 thresholds.*\nAsk for fewer"):
        enough_thresholds(published_points, 12)


def test_published_pairs_agree_with_scipy_and_with_the_preprint(published_points):
    fits = fit_in_k(published_points)
    assert len(fits) == 64
    assert (fits.n == 11).all()
    assert fits.r_squared.min() >= 0.99  # what the preprint says
    for row in fits.to_dict("records"):
        own = published_points.query("dataset == @row['dataset'] and model == @row['model']")
        line = linregress(np.log(own.k.astype(float)), np.log(own.value))
        assert (row["alpha"], row["r_squared"]) == pytest.approx((-line.slope, line.rvalue**2), rel=1e-9)


def test_an_exact_law_has_no_bend():
    points = model(0.8 * K**-0.4)
    assert abs(bend(points, 10).bend.iloc[0]) < 1e-12


def test_bend_measures_the_two_sides():
    points = model(np.where(K <= 10, 0.8 * K**-0.5, 0.8 * 10**-0.2 * K**-0.3))
    row = bend(points, 10).iloc[0]
    assert (row.alpha_below, row.alpha_above) == pytest.approx((0.5, 0.3))
    with pytest.raises(DataError, match="three thresholds up to k = 10"):
        bend(points[points.k < 7], 10)


def simulate(rng, law, tokens, k=K):
    """RBP_k of ranks drawn one token at a time (in bins between thresholds)."""
    share = np.exp(-law)
    counts = rng.multinomial(tokens, np.append(np.diff(share, prepend=0), 1 - share[-1]))
    return -np.log(np.cumsum(counts[:-1]) / tokens)


@pytest.mark.parametrize("draws", loop_and_slow(100, 2000))
def test_covariance_and_coverage_against_simulated_ranks(draws):
    rng, law, tokens = np.random.default_rng(7), 0.8 * K**-0.4, 20_000
    values = np.array([simulate(rng, law, tokens) for _ in range(4000)])
    np.testing.assert_allclose(
        np.cov(np.log(values).T), sampling_covariance(law, K, tokens), rtol=0.12, atol=0.02 * 5e-5
    )
    tests = [sampling_test(K, value, tokens) for value in values[:draws]]
    assert np.mean([chi2 for chi2, _ in tests]) == pytest.approx(9, abs=3.5 * (2 * 9 / draws) ** 0.5)
    assert may_be(sum(p < 0.05 for _, p in tests), draws, 0.05)


def test_equal_shares_have_no_test():
    with pytest.raises(FitError, match="same RBP_k"):
        sampling_test([1, 2, 3], [0.5, 0.4, 0.4], 1000)


def test_bounds_are_no_numbers_of_tokens():
    points = model(0.8 * K**-0.4 * (1 + 0.01 * np.sin(K)))
    cell = {"dataset": ["d"], "family": ["f"], "tokens": [10_000]}
    fits = fit_in_k(points)
    assert len(sampling_tests(points, fits, pd.DataFrame(cell | {"basis": ["counted"]}))) == 1
    assert sampling_tests(points, fits, pd.DataFrame(cell | {"basis": ["at most"]})).empty
    alike = points.assign(value=points["value"].where(points["k"] < 78, points["value"].iloc[-1]))
    assert sampling_tests(alike, fits, pd.DataFrame(cell | {"basis": ["counted"]})).empty  # which have no test
