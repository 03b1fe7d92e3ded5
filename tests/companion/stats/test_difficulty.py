"""Theories of k: closed forms, simulated guesses, and curves that are moved, against each other."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import least_squares
from scipy.stats import norm

from companion.stats.difficulty import CURVES, THEORIES, fit_curve, guesses, local_exponent
from rbp.errors import DataError, ParameterError

K = np.array([1, 2, 5, 10, 20, 50, 100])
ENTROPY = np.array([2.5, 3.0, 3.5, 4.0, 5.0])
K2, CE2 = (each.ravel() for each in np.meshgrid(K, ENTROPY))
TRUE = {
    "normal": (0.9, 0.35, 0.3, 0.8),
    "tries": (0.5, 0.3, 0.5, 0.6),
    "product": (-1.3, 0.9, 0.7, 0.25),
    "bent": (-2.0, 1.6, 0.3, -0.01),
}


@pytest.mark.parametrize("name", CURVES)
def test_a_fit_finds_the_curve_that_made_the_points(name):
    value = np.exp(CURVES[name][0](K2, CE2, *TRUE[name]))
    found = fit_curve(name, K2, CE2, value)
    assert found.parameters == pytest.approx(TRUE[name], rel=1e-6)
    assert found.rms < 1e-9
    assert np.exp(found.log_neg_log([7], [3.3])) == pytest.approx(np.exp(CURVES[name][0](7, 3.3, *TRUE[name])))


@pytest.mark.parametrize("name", CURVES)
def test_a_fit_has_the_least_squares_of_another_solver(name):
    value = np.exp(CURVES[name][0](K2, CE2, *TRUE[name]) + 0.05 * np.sin(3 * np.arange(K2.size)))
    own = fit_curve(name, K2, CE2, value)
    other = least_squares(lambda p: CURVES[name][0](K2, CE2, *p) - np.log(value), TRUE[name], xtol=1e-14, ftol=1e-14)
    assert own.rms == pytest.approx(np.sqrt(np.mean(other.fun**2)), rel=1e-9)
    assert own.parameters == pytest.approx(other.x, rel=1e-4)


def test_normal_difficulties_answer_as_a_mixture_over_them_does():
    """A normal response of width w to difficulties of variance 1 is Φ of θ + h over √(1 + w²)."""
    width, reach = 0.4, 0.7
    mixture, _ = quad(lambda d: norm.pdf(d) * norm.cdf((reach - d) / width), -9, 9)
    curve = CURVES["normal"][0](1, 0.0, reach / np.sqrt(1 + width**2), 1.0, 0.3, 1.0)
    assert np.exp(-np.exp(curve)) == pytest.approx(mixture, abs=1e-9)


def test_k_guesses_are_as_many_tries():
    """With κ(3) = 3, the chance that none of three independent tries hits."""
    gain = np.log(3) / ((1 + np.log(3)) - 1)
    assert guesses(3, gain, 1.0) == pytest.approx(np.log(3))
    k, entropy = K2[K2 <= 10], CE2[K2 <= 10]
    found = fit_curve("tries", k, entropy, np.exp(CURVES["tries"][0](k, entropy, 0.1, 0.3, gain, 1.0)))
    hits = np.random.default_rng(1).random((200_000, 3)) < 0.3
    assert found.more_guesses(0.3, 3) == pytest.approx(1 - 0.7**3, abs=1e-9)
    assert found.more_guesses(0.3, 3) == pytest.approx(hits.any(axis=1).mean(), abs=0.005)


@pytest.mark.parametrize("name", THEORIES)
def test_more_guesses_need_no_cross_entropy(name):
    found = fit_curve(name, K2, CE2, np.exp(CURVES[name][0](K2, CE2, *TRUE[name])))
    first, later = (np.exp(-np.exp(found.log_neg_log([k] * 5, ENTROPY))) for k in (1, 10))
    assert found.more_guesses(first, 10) == pytest.approx(later, rel=1e-9)
    assert found.more_guesses(first, 1) == pytest.approx(first)


def test_the_local_exponent_of_a_power_is_the_power_and_of_a_bend_that_between_its_neighbours():
    assert local_exponent(K, 0.8 * K**-0.4, 10) == pytest.approx(0.4)
    value = np.exp(-0.3 * np.log(K) - 0.05 * np.log(K) ** 2)
    between = 0.3 + 0.05 * (np.log(5) + np.log(20))  # the secant of a parabola
    assert local_exponent(K, value, 10) == pytest.approx(between)
    assert local_exponent(K, value, 1) == pytest.approx(0.3 + 0.05 * np.log(2))
    assert local_exponent(K, value, 100) == pytest.approx(0.3 + 0.05 * (np.log(50) + np.log(100)))
    assert np.isnan(local_exponent([1, 100], [0.5, 0.1], 1))  # no neighbour


def test_what_cannot_be_fitted_is_named():
    with pytest.raises(ParameterError, match="no curve 'x'"):
        fit_curve("x", K2, CE2, np.ones(K2.size))
    with pytest.raises(DataError, match="more than 4 points"):
        fit_curve("normal", K2[:4], CE2[:4], np.full(4, 0.5))
    with pytest.raises(DataError, match="0 < RBP_k < 1"):
        fit_curve("normal", K2, CE2, np.zeros(K2.size))
    with pytest.raises(ParameterError, match="has no ability"):
        fit_curve("bent", K2, CE2, np.exp(CURVES["bent"][0](K2, CE2, *TRUE["bent"]))).more_guesses(0.5, 5)
