"""Compare laws: whether two metrics of the same models share one exponent."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from rbp.arrays import check_level
from rbp.errors import ParameterError
from rbp.laws.power import check_points, fit_power_law


@dataclass(frozen=True)
class PairedExponents:
    """α_first − α_second of two metrics of the same models, with its t test of n − 2 degrees of freedom."""

    difference: float
    low: float
    high: float
    t: float
    p: float
    df: int
    alpha_first: float
    alpha_second: float


def paired_exponents(
    size: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike, *, level: float = 0.95
) -> PairedExponents:
    """Compare two exponents through the line of ln(first/second) on ln S: what both share at a model cancels.

    ``size``, ``first`` and ``second`` have shape (n,), n ≥ 3, row by row the same models. Raises what
    ``fit_power_law`` raises, also where the ratio is the same at every model.
    """
    sizes, ones = check_points(size, first, name="first")
    _, others = check_points(size, second, name="second")
    alphas = [fit_power_law(sizes, values, level=level).alpha for values in (ones, others)]
    ratio = fit_power_law(sizes, ones / others, level=level)
    t = ratio.alpha / ratio.alpha_se
    return PairedExponents(
        difference=ratio.alpha,
        low=ratio.alpha_low,
        high=ratio.alpha_high,
        t=t,
        p=float(2 * stdtr(ratio.df, -abs(t))),
        df=ratio.df,
        alpha_first=alphas[0],
        alpha_second=alphas[1],
    )


@dataclass(frozen=True)
class Equivalence:
    """The relative difference of α_first from α_second, and whether the two are equivalent.

    ``relative`` = α_first/α_second − 1. ``low``, ``high``: its interval by Fieller's theorem, of confidence
    2·``level`` − 1, so that each of two one-sided tests errs with probability 1 − ``level``; NaN where α_second cannot
    be told from 0, which leaves no bound. ``within`` and ``outside``: whether all of the interval lies inside
    ±``margin``, or beyond one end of it; where neither, the models do not decide.
    """

    relative: float
    low: float
    high: float
    within: bool
    outside: bool
    df: int


def equivalence(
    size: npt.ArrayLike,
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    margin: float = 0.1,
    level: float = 0.95,
) -> Equivalence:
    """Test α_first/α_second against 1 ± ``margin`` by two one-sided tests (TOST), on the same models.

    ``size``, ``first`` and ``second`` are as for ``paired_exponents``. The test of a ratio ρ tests the slope of ln
    first − ρ ln second, with n − 2 degrees of freedom. Raises what ``paired_exponents`` raises, and ParameterError for
    a ``level`` of a half or less.
    """
    check_level(level)
    if level <= 0.5:
        raise ParameterError(f"two tests cannot err with probability {1 - level:g} each", "level", "Give 0.9 or 0.95.")
    sizes, ones = check_points(size, first, name="first")
    _, others = check_points(size, second, name="second")
    fit_power_law(sizes, ones / others)  # a ratio that does not vary leaves no scatter to test against
    x = np.log(sizes)
    x -= x.mean()
    y = np.log(np.column_stack([ones, others]))
    y -= y.mean(axis=0)
    alpha = -(x @ y) / (x @ x)
    off = y + np.outer(x, alpha)
    df = x.size - 2
    total = stdtrit(df, level) ** 2 * (off.T @ off) / df / (x @ x)
    # Fieller: the ratios ρ with (α₁ − ρ α₂)² ≤ t² var(α₁ − ρ α₂), between the roots of a parabola
    square, linear, constant = (np.multiply.outer(alpha, alpha) - total)[[1, 0, 0], [1, 1, 0]]
    root = np.sqrt(linear**2 - square * constant)
    low, high = (linear + np.array([-root, root])) / square - 1 if square > 0 else (math.nan, math.nan)
    return Equivalence(
        relative=float(alpha[0] / alpha[1] - 1),
        low=float(low),
        high=float(high),
        within=bool(-margin < low and high < margin),
        outside=bool(low > margin or high < -margin),
        df=df,
    )
