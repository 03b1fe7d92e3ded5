import numpy as np
import pytest
from scipy.optimize import minimize
from statsmodels.stats.multitest import multipletests

from companion.stats.cells import holm
from companion.stats.shapes import fit_shape
from rbp.laws.power import curvature

SIZES = np.geomspace(1e6, 1e10, 8)
X = np.log(SIZES)
WIGGLE = np.exp(0.02 * np.array([1, -1, 0.5, -0.5, -1, 1, 0.3, -0.3]))
CURVES = {"power law": 5 * SIZES**-0.1, "logarithm": 3 - 0.1 * X, "logistic": np.log1p(np.exp(2 - 0.2 * X))}


@pytest.mark.parametrize("shape", CURVES)
def test_a_shape_recovers_its_own_curve_and_goes_on_along_it(shape):
    fit = fit_shape(shape, SIZES, CURVES[shape])
    assert fit.rss < 1e-18
    further = fit_shape(shape, SIZES[:-2], CURVES[shape][:-2]).predict(SIZES[-2:])
    assert further == pytest.approx(CURVES[shape][-2:], rel=1e-6)


def test_a_logarithm_is_found_where_the_first_line_falls_below_zero():
    """Steep values: the straight line through them, from which the search would set out, is no curve."""
    value = np.geomspace(3, 1e-3, 8)
    slope, level = np.polyfit(X, value, 1)
    assert (level + slope * X).min() < 0

    def squares(p):
        curve = np.maximum(p[0] - np.exp(p[1]) * (X - X.mean()), 1e-300)
        return np.sum(np.log(curve / value) ** 2)

    options = {"xatol": 1e-12, "fatol": 1e-14, "maxiter": 10_000}
    direct = minimize(squares, [0.5, -5], method="Nelder-Mead", options=options)
    assert fit_shape("logarithm", SIZES, value).rss == pytest.approx(direct.fun, rel=1e-8)


def test_curvature_is_the_parabola_of_polyfit():
    value = np.exp(1 - 0.1 * X + 0.004 * (X - X.mean()) ** 2) * WIGGLE
    found = curvature(SIZES, value)
    coefficients, covariance = np.polyfit(X - X.mean(), np.log(value), 2, cov=True)
    assert found.coefficient == pytest.approx(coefficients[0])
    assert found.t == pytest.approx(coefficients[0] / covariance[0, 0] ** 0.5)
    assert (found.n, found.df) == (8, 5)
    assert found.low < found.coefficient < found.high
    nearly = np.exp(1 - 0.1 * X) * WIGGLE**1e-6  # a scatter far below any reading's, and yet no perfect parabola
    assert curvature(SIZES, nearly).df == 5
    # the units of S do not matter
    assert curvature(SIZES / 1e6, value).coefficient == pytest.approx(found.coefficient)


@pytest.mark.parametrize("count", [1, 2, 30])
def test_holms_correction_is_that_of_statsmodels(count):
    p = np.random.default_rng(count).random(count).round(1)  # some are equal
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-15)
