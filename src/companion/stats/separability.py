"""Test y = u(row) + v(column) for any u and v, and the same after a transform of y.

The interaction of a two-way table with one value a cell is held against the variance between repeats of some cells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import boxcox, fdtrc, fdtri

from rbp.arrays import Reals, as_positive, check_level
from rbp.errors import FitError

POWERS = (-20.0, 20.0)  # λ is sought between these
_STEP = 0.1


@dataclass(frozen=True)
class Apart:
    """The F test of no interaction: `f` is its mean square over the variance of repeats, with degrees of freedom.

    Small `p`: the factors do not act apart on this scale.
    """

    f: float
    df_num: int
    df_den: int
    p: float


@dataclass(frozen=True)
class Power:
    """The λ of Box and Cox's transform (y^λ − 1)/λ after which the factors would act apart; 1 is a sum, 0 a product.

    estimate: where F is least, and p its test there. low, high: the λ at which the test rejects at neither end of
    `level`'s interval (its hull); infinite where none in POWERS is rejected on that side, NaN where all are.
    """

    estimate: float
    low: float
    high: float
    p: float


def interaction(grid: npt.ArrayLike, repeats: Sequence[npt.ArrayLike], power: float = 1.0) -> Apart:
    """Test y = u(row) + v(column) after Box and Cox's transform with λ = `power` (1: of y; 0: of ln y).

    grid: y, positive, shape (rows, columns), two of each at least. repeats: of each repeated cell all its values, that
    of the grid included; their variance, pooled, is taken as every cell's on the transformed scale. What the
    cells of one row (or column) share drops out. Raises FitError for values that are not positive, a table without
    interaction, or repeats that do not differ.
    """
    return _test(*_checked(grid, repeats), power)


def power_interval(grid: npt.ArrayLike, repeats: Sequence[npt.ArrayLike], *, level: float = 0.95) -> Power:
    """Find the λ for which the table is a sum, by inverting `interaction`. Raises what that raises."""
    check_level(level)
    values, again = _checked(grid, repeats)

    def f(power: float) -> float:
        return _test(values, again, power).f

    scan = np.arange(POWERS[0], POWERS[1] + _STEP / 2, _STEP)
    seen = np.array([f(power) for power in scan])
    best = int(seen.argmin())
    bracket = scan[max(best - 1, 0)], scan[min(best + 1, len(scan) - 1)]
    estimate = float(minimize_scalar(f, bounds=bracket, method="bounded", options={"xatol": 1e-7}).x)
    least = _test(values, again, estimate)
    cut = float(fdtri(least.df_num, least.df_den, level))
    if least.f > cut:
        return Power(estimate, np.nan, np.nan, least.p)
    accepted = [*scan[seen <= cut], estimate]
    low, high = min(accepted), max(accepted)
    low = brentq(lambda power: f(power) - cut, low - _STEP, low) if low > POWERS[0] else -np.inf
    high = brentq(lambda power: f(power) - cut, high, high + _STEP) if high < POWERS[1] else np.inf
    return Power(estimate, float(low), float(high), least.p)


def left_of_two(values: Reals) -> Reals:
    """Subtract the best sum of a row's and a column's effect from a two-way table, shape (rows, columns)."""
    left: Reals = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    return left


def _checked(grid: npt.ArrayLike, repeats: Sequence[npt.ArrayLike]) -> tuple[Reals, list[Reals]]:
    table = np.asarray(grid, dtype=np.float64)
    if table.ndim != 2 or min(table.shape) < 2:
        raise FitError("a table of fewer than two rows or columns has no interaction", "grid", "Give a whole grid.")
    as_positive(table.ravel(), "grid")
    again = [as_positive(values, "repeats") for values in repeats]
    if not sum(float(np.ptp(values)) for values in again) > 0:
        raise FitError("no repeated cell differs, so chance cannot be estimated", "repeats", "Give several values.")
    middle = np.exp(np.log(table).mean())  # in units of the middle: large powers of y stay finite
    return table / middle, [values / middle for values in again]


def _test(values: Reals, repeats: list[Reals], power: float) -> Apart:
    y = boxcox(values, power)
    left = left_of_two(y)
    df_num = (y.shape[0] - 1) * (y.shape[1] - 1)
    again = [boxcox(cell, power) for cell in repeats]
    df_den = sum(len(cell) - 1 for cell in again)
    variance = sum(float(((cell - cell.mean()) ** 2).sum()) for cell in again) / df_den
    f = float((left**2).sum()) / df_num / variance
    return Apart(f, df_num, df_den, float(fdtrc(df_num, df_den, f)))
