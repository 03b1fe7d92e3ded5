"""Minima found to rounding, from analytic derivatives: the same digits from any start and on any processor.

A search that compares values of a function stops where they agree to rounding: at a distance of about the square root
of the machine's precision, where the digits of a fit differ between processors. Newton's steps compare nothing: they
end where the gradient is zero, to rounding. Their decrement, g·H⁻¹·g, is twice what a step promises to gain; it falls
from step to step, until rounding is all that is left of it.
"""

import contextlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import optimize

from rbp.core.arrays import Reals
from rbp.core.errors import FitError

_STEPS = 50  # a few are the rule; more where the second derivative nearly vanishes
_LOST = "the fit did not converge", None, "The points may not determine all parameters."
_ARRIVED = 1e-16  # the decrement of a fit that may be given: far above rounding, far below what moves a digit


def minimum(function: Callable[[Reals], tuple[float, Reals, Reals]], start: Reals) -> Reals:
    """Where a smooth function, a negative log-likelihood say, has the minimum downhill from `start`, shape (p,).

    function: x → value, gradient (p,), Hessian (p, p). Raises FitError where there is no minimum.
    """

    @lru_cache(maxsize=8)  # the search asks for each of the three by itself
    def at(point: tuple[float, ...]) -> tuple[float, Reals, Reals]:
        return function(np.array(point))

    parts = [lambda x, i=i: at(tuple(x))[i] for i in range(3)]
    with np.errstate(all="ignore"):  # a step too far is taken back
        near = optimize.minimize(parts[0], start, jac=parts[1], hess=parts[2], method="trust-exact")

    def step(x: Reals) -> tuple[Reals, float]:
        _, gradient, hessian = function(x)
        np.linalg.cholesky(hessian)  # raises where it is not positive definite: at a saddle, or far away
        move = np.asarray(np.linalg.solve(hessian, gradient), dtype=np.float64)
        return move, float(gradient @ move)

    found, before = _newton(step, near.x), function(start)[0]
    if not function(found)[0] <= before + 1e-9 * abs(before) + 1e-20:  # a plain far off is flat too
        raise FitError(*_LOST)
    return found


def least_squares(residuals: Callable[[Any], Any], start: Reals) -> Reals:
    """Where the sum of squared residuals has the minimum downhill from `start`, shape (p,).

    residuals: x → shape (n,), made of analytic functions alone: derivatives are taken by a complex step, which loses no
    digits. The steps are Gauss and Newton's: residuals are to be small. Raises FitError where there is no minimum.
    """
    tiny = 1e-30

    def jacobian(x: Reals) -> Reals:
        return np.column_stack([residuals(x + 1j * tiny * unit).imag / tiny for unit in np.eye(len(x))])

    with np.errstate(all="ignore"):
        near = optimize.least_squares(residuals, start, jacobian, method="lm", x_scale="jac")

    def step(x: Reals) -> tuple[Reals, float]:
        away, slopes = residuals(x), jacobian(x)
        if not np.isfinite(slopes).all():
            raise np.linalg.LinAlgError
        move, _, rank, _ = np.linalg.lstsq(slopes, away, rcond=None)
        if rank < len(x):
            raise np.linalg.LinAlgError
        return move, float(np.sum((slopes @ move) ** 2))

    return _newton(step, near.x)


def _newton(step: Callable[[Reals], tuple[Reals, float]], x: Reals) -> Reals:
    """Steps from x, near the minimum, until their decrement falls no more; where it falls for ever, there is none."""
    last = np.inf
    with contextlib.suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
        for _ in range(_STEPS):
            move, decrement = step(x)
            if not decrement < last and last < _ARRIVED:
                return x
            x, last = x - move, decrement
    raise FitError(*_LOST)
