"""Minima to rounding, against closed forms and Rosenbrock's valley."""

import numpy as np
import pytest

from rbp.errors import FitError
from rbp.laws.newton import minimum


def valley(x, above):
    a, b = x
    gradient = np.array([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)])
    hessian = np.array([[2 - 400 * (b - 3 * a * a), -400 * a], [-400 * a, 200.0]])
    return above + (1 - a) ** 2 + 100 * (b - a * a) ** 2, gradient, hessian


@pytest.mark.parametrize(
    ("start", "above"),
    [((-1.2, 1.0), 0), ((0.0, -5.0), 0), ((1.01, 1.0), 1e9)],
)
def test_the_minimum_of_a_bent_valley_from_anywhere(start, above):
    """Also where values agree to rounding: a search that compares them would stop 1e-4 away."""
    assert minimum(lambda x: valley(x, above), np.array(start)) == pytest.approx([1, 1], rel=1e-14)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (np.exp(-x[0]), -np.exp(-x), np.diag(np.exp(-x))),  # falls for ever
        lambda x: (-float(x @ x), -2 * x, -2 * np.eye(1)),
        lambda x: (float(np.abs(x).sum()), np.sign(x), np.zeros((1, 1))),  # has a corner
    ],
)
def test_where_there_is_no_minimum_none_is_given(function):
    with pytest.raises(FitError, match="did not converge"):
        minimum(function, np.array([0.5]))
