"""Compare models at equal cross-entropy: one model, degraded step by step along several paths.

A path is a curve, ln(−ln RBP_k) over ln of the cross-entropy, through its steps from the whole model on. All is
computed of a text and of it without each of its documents, so that differences between paths are paired by document.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.arrays import Reals
from rbp.laws.resampling import Interval, degrees_of_freedom, interval, without_each


@dataclass(frozen=True)
class Curve:
    """A path of n steps, the whole model first, on a text of D documents.

    x: ln of the cross-entropy, shape (1 + D, n), the text as it is first; tempered: the same at the temperature that
    makes it least, NaN where it was not measured; y: ln(−ln RBP_k), shape (1 + D, n, thresholds); names: of the
    steps; df: degrees of freedom of intervals by these documents, which have no tokens to find repeats by.
    """

    path: str
    draw: int
    names: tuple[str, ...]
    x: Reals
    tempered: Reals
    y: Reals
    df: float

    def at(self, level: Reals, *, tempered: bool = False) -> Reals | None:
        """Return ln(−ln RBP_k) at a level of ln cross-entropy, (1 + D,), as (1 + D, thresholds); None if not reached.

        Linear between the first two neighbouring steps that enclose the level of the whole text; NaN at a k that no
        token, or each, reaches there.
        """
        x = self.tempered if tempered else self.x
        below = x[0] <= level[0]
        places = np.flatnonzero(below[:-1] != below[1:])
        if not len(places) or not np.isfinite(x[0, places[0] : places[0] + 2]).all():
            return None
        i = int(places[0])
        share = ((level - x[:, i]) / (x[:, i + 1] - x[:, i]))[:, None]
        with np.errstate(invalid="ignore"):  # where nothing has rank ≤ k at one of the two, or everything
            y: Reals = self.y[:, i] + share * (self.y[:, i + 1] - self.y[:, i])
        return np.where(np.isfinite(y), y, np.nan)


def curve(
    path: str,
    draw: int,
    names: Sequence[str],
    tokens: npt.ArrayLike,
    hits: npt.ArrayLike,
    nll: npt.ArrayLike,
    tempered: npt.ArrayLike | None = None,
) -> Curve:
    """Make a path of sums by document: tokens (D,), hits (D, n, thresholds), nll (D, n); tempered: nats, (1 + D, n)."""
    count = without_each(tokens)
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.log(without_each(nll) / count[:, None])
        y = np.log(-np.log(without_each(hits) / count[:, None, None]))
        best = np.full_like(x, np.nan) if tempered is None else np.log(np.asarray(tempered, dtype=np.float64))
    return Curve(path, draw, tuple(names), x, best, y, degrees_of_freedom(tokens))


def best_temperature(nll: npt.ArrayLike, slope: npt.ArrayLike, temperatures: npt.ArrayLike) -> tuple[Reals, Reals]:
    """Return the temperature of least Σ −ln p, and that sum: shape (…), of nll and slope (…, temperatures).

    slope: the derivative of nll by 1/T. A cubic in ln T with these values and slopes, between the neighbours where the
    sum stops falling; at an end of the temperatures where it does not.
    """
    t = np.asarray(temperatures, dtype=np.float64)
    x, value = np.log(t), np.asarray(nll, dtype=np.float64)
    fall = -np.asarray(slope, dtype=np.float64) / t  # the derivative by ln T; the sum is convex in 1/T: one change
    last = np.clip((fall < 0).sum(-1) - 1, 0, len(t) - 2)[..., None]
    low, high = (np.take_along_axis(value, last + i, -1)[..., 0] for i in (0, 1))
    step = np.diff(x)[last[..., 0]]
    first, second = (np.take_along_axis(fall, last + i, -1)[..., 0] * step for i in (0, 1))
    # low + first·u + b·u² + a·u³ over u from 0 to 1
    a, b = 2 * (low - high) + first + second, 3 * (high - low) - 2 * first - second
    inside = (first < 0) & (second > 0)
    root = np.sqrt(np.where(inside, b**2 - 3 * a * first, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = np.where(b >= 0, -first / (b + root), (root - b) / (3 * a))  # neither loses digits
    u = np.where(inside, np.clip(turn, 0, 1), np.where(second <= 0, 1.0, 0.0))
    return np.exp(x[last[..., 0]] + u * step), low + u * (first + u * (b + u * a))


def offsets(curves: Sequence[Curve], reference: str, rung: str, *, tempered: bool = False) -> dict[str, Reals]:
    """Return by path ln(−ln RBP_k) at the cross-entropy of the reference's step `rung`, less that step's own value.

    Shape (draws, 1 + D, thresholds); the reference itself has zeros. Paths that do not reach that level in all draws
    are left out. Raises KeyError where the rung is not there.
    """
    base = next((one for one in curves if one.path == reference and rung in one.names), None)
    if base is None:
        raise KeyError(rung)
    place = base.names.index(rung)
    level, y0 = (base.tempered if tempered else base.x)[:, place], base.y[:, place]
    y0 = np.where(np.isfinite(y0), y0, np.nan)
    offsets: dict[str, Reals] = {}
    for path in dict.fromkeys(one.path for one in curves):
        draws = [y0] if path == reference else [one.at(level, tempered=tempered) for one in curves if one.path == path]
        reached = [each - y0 for each in draws if each is not None]
        if len(reached) == len(draws):
            offsets[path] = np.stack(reached)
    return offsets


def spread(offsets: dict[str, Reals], left_out: Sequence[str] = ()) -> Reals:
    """Return the standard deviation over paths of their offsets, draws averaged: shape (1 + D, thresholds)."""
    means = [each.mean(axis=0) for path, each in offsets.items() if path not in left_out]
    deviation: Reals = np.std(means, axis=0)
    return deviation


def offset_table(
    offsets: dict[str, Reals], thresholds: Sequence[int], df: float, *, level: float = 0.95
) -> pd.DataFrame:
    """Tabulate the offsets in per cent of −ln RBP_k: a row for each path and k.

    Columns path, k, offset, low, high (by documents, with `df` as of `Curve`), draws (the standard deviation between
    draws; NaN for one), apart (the interval leaves out 0).
    """
    rows: list[tuple[Any, ...]] = []
    for path, each in offsets.items():
        estimate, low, high = interval(each.mean(axis=0), df, level=level)
        by_draw = each[:, 0].std(axis=0, ddof=1) if len(each) > 1 else np.full(len(thresholds), np.nan)
        ends = zip(thresholds, *(100 * np.expm1(v) for v in (estimate, low, high, by_draw)), low, high, strict=True)
        rows += [(path, k, *v, bool(a > 0 or b < 0)) for k, *v, a, b in ends]
    return pd.DataFrame(rows, columns=["path", "k", "offset", "low", "high", "draws", "apart"])


def spread_interval(values: Reals, df: float, *, level: float = 0.95) -> Interval:
    """Return the interval of `spread` by documents, of its logarithm, in per cent of −ln RBP_k."""
    with np.errstate(divide="ignore"):
        ends = interval(np.log(values), df, level=level)
    return Interval(*(100 * np.expm1(np.exp(each)) for each in ends))


def as_least(values: Reals, df: float, *, level: float = 0.95) -> tuple[int, npt.NDArray[np.bool_]]:
    """Find the threshold of least `spread`, and the thresholds where it is not shown to be larger."""
    least = int(np.nanargmin(values[0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        away = np.log(values) - np.log(values[:, [least]])
    low = interval(away, df, level=level).low
    same = ~(low > 0)
    same[least] = True
    return least, same
