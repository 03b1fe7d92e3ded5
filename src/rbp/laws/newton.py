"""Minima found to rounding, from analytic derivatives: the same digits from any start and on any processor.

A search that compares values of a function stops where they agree to rounding: at a distance of about the square root
of the machine's precision, where the digits of a fit differ between processors. Newton's steps compare nothing: they
end where the gradient is zero, to rounding. Their decrement, g·H⁻¹·g, is twice what a step promises to gain; it falls
from step to step, until rounding is all that is left of it.
"""

import contextlib
from collections.abc import Callable, Sequence

import numpy as np

from rbp.arrays import Reals
from rbp.errors import FitError

_STEPS = 50  # a few are the rule; more where the second derivative nearly vanishes
_LOST = "the fit did not converge", None, "The points may not determine all parameters."
_ARRIVED = 1e-16  # the decrement of a fit that may be given: far above rounding, far below what moves a digit


def minimum(
    function: Callable[[Reals], tuple[float, Reals, Reals]],
    start: Reals,
    positive: Sequence[int] = (),
    *,
    steps: int = 200,
) -> Reals:
    """Find the minimum of a smooth function, such as a negative log-likelihood, downhill from `start`, shape (p,).

    function: x → value, gradient (p,), Hessian (p, p); positive: the places of x that stay above 0, though they may
    begin there; steps: at most so many from far away. Raises FitError where there is no minimum.
    """
    computed: dict[bytes, tuple[float, Reals, Reals]] = {}

    def evaluate(x: Reals) -> tuple[float, Reals, Reals]:
        """Return the function's values, computed once: of all looks a third is at a point that is known."""
        key = x.tobytes()
        if key not in computed:
            computed[key] = function(x)
        return computed[key]

    def step(x: Reals) -> tuple[Reals, float]:
        _, gradient, hessian = evaluate(x)
        np.linalg.cholesky(hessian)  # raises where it is not positive definite: at a saddle, or far away
        move = np.asarray(np.linalg.solve(hessian, gradient), dtype=np.float64)
        return move, float(gradient @ move)

    lowest, before = _newton(step, _downhill(evaluate, start, list(positive), steps)), evaluate(start)[0]
    inside = (lowest[list(positive)] > 0).all()
    if not inside or not evaluate(lowest)[0] <= before + 1e-9 * abs(before) + 1e-20:  # a plain far off is flat too
        raise FitError(*_LOST)
    return lowest


def _downhill(
    function: Callable[[Reals], tuple[float, Reals, Reals]], x: Reals, positive: list[int], steps: int
) -> Reals:
    """Step from x to where the next step's gain is lost in the value's rounding, and full steps are right.

    A step is halved until the value falls by a part of what it promises, and goes no more than nine tenths of the way
    to an edge.
    """
    with contextlib.suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):  # a step too far is taken back
        value, gradient, hessian = function(x)
        for _ in range(steps):
            if not np.isfinite(value):
                break
            move, convex = _step(gradient, hessian)
            promise = float(-gradient @ move)
            near = promise <= 1e-10 * abs(value) + 1e-30
            if near and convex:
                return x
            toward = move[positive] < -0.9 * x[positive]
            length = float((-0.9 * x[positive] / move[positive])[toward].min()) if toward.any() else 1.0
            after = function(x + length * move)
            while not near and not after[0] <= value - 1e-4 * length * promise:
                length /= 2
                if length < 1e-12:
                    raise FitError(*_LOST)
                after = function(x + length * move)
            x, (value, gradient, hessian) = x + length * move, after
    raise FitError(*_LOST)


def _step(gradient: Reals, hessian: Reals) -> tuple[Reals, bool]:
    """Compute Newton's step downhill, and whether the function is convex here; where not, curvatures change sign.

    In units in which each parameter's own curvature is 1.
    """
    size = np.sqrt(np.abs(np.diag(hessian)))
    unit = 1 / np.where(size > 0, size, 1.0)
    curvature, axes = np.linalg.eigh(hessian * unit * unit[:, None])
    least = 1e-12 * np.abs(curvature).max(initial=0.0)
    along = axes.T @ (unit * gradient) / np.maximum(np.abs(curvature), max(least, 1e-300))
    return -unit * (axes @ along), bool((curvature > least).all())


def _newton(step: Callable[[Reals], tuple[Reals, float]], x: Reals) -> Reals:
    """Step from x, near the minimum, until the decrement falls no more; if it always falls, there is no minimum."""
    last = np.inf
    with contextlib.suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
        for _ in range(_STEPS):
            move, decrement = step(x)
            if not decrement < last and last < _ARRIVED:
                return x
            x, last = x - move, decrement
    raise FitError(*_LOST)
