import numpy as np
import pytest
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


def test_curvature_is_the_parabola_of_polyfit():
    value = np.exp(1 - 0.1 * X + 0.004 * (X - X.mean()) ** 2) * WIGGLE
    found = curvature(SIZES, value)
    coefficients, covariance = np.polyfit(X - X.mean(), np.log(value), 2, cov=True)
    assert found.coefficient == pytest.approx(coefficients[0])
    assert found.t == pytest.approx(coefficients[0] / covariance[0, 0] ** 0.5)
    assert found.low < found.coefficient < found.high


def test_holms_correction_is_that_of_statsmodels():
    p = np.random.default_rng(30).random(30).round(1)  # some are equal
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-15)
