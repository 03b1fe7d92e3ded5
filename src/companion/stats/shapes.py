"""Smooth falling curves of two parameters that are not power laws.

Every shape has two parameters, as the power law has: y = g(u) with u = a + b ln S. All are fitted by least squares of
ln y, so that their residual sums of squares can be compared directly.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from rbp.arrays import Reals, as_positive
from rbp.errors import ParameterError
from rbp.laws.newton import minimum
from rbp.laws.power import check_points

_TINY = 1e-12  # where a line has fallen to zero or below, its logarithm is taken of this instead


@dataclass(frozen=True)
class _Link:
    """A curve y = inverse(u), the u of a given y, and ln y by u: its value, and its first and second derivative."""

    inverse: Callable[[Reals], Reals]
    link: Callable[[Reals], Reals]
    log: Callable[[Reals], tuple[Reals, Reals, Reals]]


def _log_logistic(u: Reals) -> tuple[Reals, Reals, Reals]:
    y, share = np.logaddexp(0.0, -u), expit(-u)
    slope = -share / y
    return np.log(y), slope, -slope * (1 - share) - slope**2


_POWER = _Link(
    lambda u: np.asarray(np.exp(u)), lambda y: np.asarray(np.log(y)), lambda u: (u, np.ones_like(u), np.zeros_like(u))
)
_LOGARITHM = _Link(
    lambda u: np.asarray(np.maximum(u, _TINY)), lambda y: y, lambda u: (np.log(np.maximum(u, _TINY)), 1 / u, -1 / u**2)
)
_LOGISTIC = _Link(
    lambda u: np.asarray(np.logaddexp(0.0, -u)), lambda y: np.asarray(-np.log(np.expm1(y))), _log_logistic
)

#: "power law": ln y = u. "logarithm": y = u, a straight line in ln S. "logistic": exp(−y), which for y = −ln RBP_k is
#: RBP_k itself, follows a logistic curve in ln S.
SHAPES = {"power law": _POWER, "logarithm": _LOGARITHM, "logistic": _LOGISTIC}


@dataclass(frozen=True)
class ShapeFit:
    """A fitted shape of ``n`` points and two parameters, with ``rss`` and ``r_squared`` of ln y."""

    shape: str
    rss: float
    r_squared: float
    n: int
    _link: _Link = field(repr=False, compare=False)
    _point: Reals = field(repr=False, compare=False)
    _centre: float = field(repr=False, compare=False)

    def predict(self, size: npt.ArrayLike) -> Reals:
        """Compute the curve at each of ``size`` (shape (m,))."""
        x = np.log(as_positive(np.atleast_1d(np.asarray(size)), "size")) - self._centre
        return self._link.inverse(self._point[0] + self._point[1] * x)


def fit_shape(shape: str, size: npt.ArrayLike, value: npt.ArrayLike) -> ShapeFit:
    """Fit one of ``SHAPES`` to ``size`` and ``value`` (shape (n,), n ≥ 3) by least squares of ln y.

    Raises ParameterError for an unknown shape; FitError as ``fit_power_law`` does.
    """
    if shape not in SHAPES:
        raise ParameterError(f"no shape is called {shape!r}", "shape", f"There is: {', '.join(SHAPES)}.")
    sizes, values = check_points(size, value)
    link = SHAPES[shape]
    centre = float(np.log(sizes).mean())
    x, y = np.log(sizes) - centre, np.log(values)
    design = np.column_stack([np.ones_like(x), x])

    def loss(point: Reals) -> tuple[float, Reals, Reals]:
        line = design @ point
        value, slope, bend = link.log(line)
        away = value - y
        weight = slope**2 + away * bend
        return float(away @ away) / 2, design.T @ (away * slope), (design * weight[:, None]).T @ design

    slope, level = np.polyfit(x, link.link(values), 1)
    if not (link.inverse(design @ [level, slope]) > _TINY).all():  # a line that falls below zero is no curve
        slope, level = 0.0, float(link.link(np.exp(y.mean(keepdims=True)))[0])
    point = minimum(loss, np.array([level, slope]))
    rss = 2 * loss(point)[0]
    return ShapeFit(shape, rss, 1 - rss / float(np.sum((y - y.mean()) ** 2)), sizes.size, link, point, centre)
