"""A power law above an E: recovered, and against searches that start everywhere."""

import numpy as np
import pytest
from scipy.optimize import differential_evolution

from rbp.laws.offset import extended, fit_offset

SIZES = np.geomspace(1e6, 1e10, 10)


def law(sizes=SIZES, offset=0.3, noise=0.0, rng=0):
    scatter = np.random.default_rng(rng).normal(size=len(sizes))
    return (offset + 40 * sizes**-0.25) * np.exp(noise * scatter)


@pytest.mark.parametrize(("of_size", "of_value"), [(1, 1), (1e-6, 300.0)])
def test_a_perfect_law_is_recovered_in_any_units(of_size, of_value):
    fit = fit_offset(SIZES * of_size, law() * of_value)
    truth = 0.3 * of_value, 0.25, 40 * of_value * of_size**0.25
    assert (fit.offset, fit.alpha, fit.prefactor) == pytest.approx(truth, rel=1e-9)
    assert (fit.offset_low, fit.offset_high) == pytest.approx((truth[0], truth[0]), rel=1e-6)
    assert "can be distinguished from 0" in fit.statement


def test_prediction_near_the_linear_case_is_that_of_least_squares():
    """The line's variance by finite differences of the fit itself: d prediction / d ln y_i, noise s²."""
    y, at, step = law(noise=1e-4, rng=4), np.array([1e7, 1e11]), 1e-6
    fit = fit_offset(SIZES, y)
    ahead = fit.predict(at)
    np.testing.assert_allclose(ahead["value"], law(at), rtol=1e-3)
    assert (ahead["low"] < ahead["mean_low"]).all()
    assert (ahead["mean_high"] < ahead["high"]).all()
    nudged = [extended(SIZES, y * np.exp(step * unit), at)[1] for unit in np.eye(10)]
    influence = np.log(np.array(nudged) / ahead["value"].to_numpy()) / step
    error = np.sqrt(np.sum(influence**2, axis=0) * fit.rss / 7)
    half = np.log(ahead["mean_high"] / ahead["value"]) / 2.364624  # t(0.975, 7)
    np.testing.assert_allclose(half, error, rtol=0.02)


@pytest.mark.parametrize(("seed", "sd"), [(0, 1e-4), (1, 0.5), (2, 0.05)])
def test_no_search_over_everywhere_ends_lower(seed, sd):
    """Noise alone: many valleys, steps between two sizes among them. E = 0 and steps are in the search's bounds."""
    rng = np.random.default_rng(seed)
    sizes = np.exp(np.sort(rng.uniform(14, 24, 4 + seed)))
    y = np.exp(sd * rng.normal(size=sizes.size))
    x, log_y = (np.log(each)[:, None] - np.log(each).mean() for each in (sizes, y))

    def rss(p):  # of any exponents and shares of E, a column each; the best common factor is a mean
        far = np.abs(p[0] * x).max(axis=0)
        return (log_y - np.logaddexp(-p[0] * x + np.log1p(-p[1]), np.log(p[1]) + far * p[2])).var(axis=0) * len(x)

    bounds = [(-60, 60), (1e-12, 1 - 1e-12), (-1, 1)]
    searched = differential_evolution(
        rss, bounds, seed=seed, tol=1e-12, maxiter=400, vectorized=True, updating="deferred"
    )
    assert fit_offset(sizes, y).rss <= searched.fun * (1 + 1e-6)
