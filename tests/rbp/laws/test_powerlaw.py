"""Power laws: against scipy and the normal equations, in any units; and what cannot carry a fit."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress
from scipy.stats import t as t_distribution

from rbp.errors import FitError, ParameterError
from rbp.laws.offset import fit_offset
from rbp.laws.power import curvature, fit_power_law
from rbp.laws.table import fit_table

SIZES = np.geomspace(1e6, 1e10, 8)


def noisy(rng, sizes=SIZES, sd=0.1):
    rng = np.random.default_rng(rng)
    return 7 * sizes**-0.2 * np.exp(sd * rng.normal(size=len(sizes)))


@pytest.mark.parametrize(("of_size", "of_value"), [(1, 1), (1e-9, 1e9)])
def test_agrees_with_scipy_in_any_units(of_size, of_value):
    sizes, y = SIZES * of_size, noisy(1) * of_value
    fit, line, t = fit_power_law(sizes, y), linregress(np.log(sizes), np.log(y)), t_distribution.ppf(0.975, 6)
    assert fit.alpha == -fit.slope == pytest.approx(-line.slope, rel=1e-12)
    assert (fit.alpha_low, fit.alpha_high) == pytest.approx(
        (-line.slope - t * line.stderr, -line.slope + t * line.stderr), rel=1e-12
    )
    assert fit.alpha_se == pytest.approx(line.stderr, rel=1e-12)
    assert fit.r_squared == pytest.approx(line.rvalue**2, rel=1e-12)
    half = t * line.intercept_stderr
    assert np.log([fit.prefactor, fit.prefactor_low, fit.prefactor_high]) == pytest.approx(
        [line.intercept, line.intercept - half, line.intercept + half], rel=1e-11
    )


def test_prediction_intervals_in_closed_form():
    y, at = noisy(2), np.array([1e5, 1e8, 1e12])
    fit = fit_power_law(SIZES, y, level=0.8)
    x, x0, t = np.log(SIZES), np.log(at), t_distribution.ppf(0.9, 6)
    line = linregress(x, np.log(y))
    mean = line.intercept + line.slope * x0
    lever = 1 / 8 + (x0 - x.mean()) ** 2 / np.sum((x - x.mean()) ** 2)
    ahead = fit.predict(at)
    np.testing.assert_allclose(ahead["value"], np.exp(mean), rtol=1e-11)
    np.testing.assert_allclose(ahead["mean_low"], np.exp(mean - t * fit.residual_se * np.sqrt(lever)), rtol=1e-10)
    np.testing.assert_allclose(ahead["high"], np.exp(mean + t * fit.residual_se * np.sqrt(1 + lever)), rtol=1e-10)


def test_weighted_fit_agrees_with_the_normal_equations():
    rng = np.random.default_rng(3)
    sd = rng.uniform(0.01, 0.2, 8)
    y = noisy(rng, sd=sd)
    fit = fit_power_law(SIZES, y, variance=(sd * y) ** 2)
    design, w = np.column_stack([np.ones(8), np.log(SIZES)]), sd**-2
    coefficients = np.linalg.solve(design.T @ (w[:, None] * design), design.T @ (w * np.log(y)))
    chi2 = np.sum(w * (np.log(y) - design @ coefficients) ** 2)
    covariance = chi2 / 6 * np.linalg.inv(design.T @ (w[:, None] * design))
    assert fit.alpha == pytest.approx(-coefficients[1], rel=1e-9)
    assert fit.scale == pytest.approx(chi2 / 6, rel=1e-9)
    assert fit.alpha_se == pytest.approx(math.sqrt(covariance[1, 1]), rel=1e-8)
    ahead, gradient = fit.predict(1e11).iloc[0], np.array([1, np.log(1e11)])
    new = gradient @ covariance @ gradient + fit.scale * np.mean(sd**2)
    assert np.log(ahead["high"] / ahead["value"]) == pytest.approx(t_distribution.ppf(0.975, 6) * new**0.5, rel=1e-8)


VALUES = np.geomspace(3, 0.6, 8)
FITS = {
    "power law": fit_power_law,
    "offset": fit_offset,
    "curvature": curvature,
    "weights": lambda size, value: fit_power_law(size, value, variance=np.ones(len(size))),
}
BAD = [  # sizes, values, and what is said of them
    (SIZES[:2], VALUES[:2], "2 points are too few"),
    ([1e7, 1e7, 1e8, 1e8, 1e8], VALUES[:5], "only 2 different sizes"),
    (SIZES, [*VALUES[:7], 0.0], r"row 7.*\n.*every token was in the top k"),
    (SIZES, [math.nan, *VALUES[1:]], "row 0"),
    ([*SIZES[:7], math.inf], VALUES, "has no logarithm"),
    (SIZES, [2.0] * 8, "do not vary"),
]


@pytest.mark.parametrize("name", FITS)
def test_points_that_carry_no_fit_are_an_error_and_never_a_silent_number(name):
    for size, value, says in BAD:
        with pytest.raises((FitError, ParameterError), match=says if name == "power law" else None):
            pytest.fail(f"{says}: {FITS[name](size, value)}")


def test_many_cells_at_once_drop_none():
    y = noisy(7)
    about = {"dataset": "d", "family": "F", "metric": "neg_log_rbp", "model": [f"m{i}" for i in range(len(SIZES))]}
    table = pd.DataFrame({**about, "size": SIZES, "value": y})
    zero = table.assign(k=2, value=np.where(SIZES[3] == SIZES, 0, y))
    ce, one = table.assign(metric="cross_entropy", k=pd.NA), table.assign(k=4)
    whole = pd.concat([table.assign(k=1), zero, table.assign(k=3)[:2], one, one[:1], ce]).astype({"k": "Int64"})
    fits = fit_table(whole, level=0.5)
    assert fits["k"].tolist() == [1, 2, 3, 4, pd.NA]
    assert fits["alpha"].isna().tolist() == [False, True, True, True, False]
    assert fits["n"].tolist() == [8, 8, 2, 9, 8]
    assert fits["note"][3] == "m0 is there twice (model)"  # which would narrow the interval
    assert fits["alpha_low"][0] == fit_power_law(SIZES, y, level=0.5).alpha_low
    with pytest.raises(ParameterError, match="several values of k"):
        fit_table(whole, by=["dataset", "family", "metric"])
