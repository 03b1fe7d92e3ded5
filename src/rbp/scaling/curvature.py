"""Is the line straight? The coefficient of (ln S)², which a power law says is zero."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from statsmodels.regression.linear_model import OLS

from rbp.errors import FitError
from rbp.scaling.points import ROUNDING, check_level, check_points


@dataclass(frozen=True)
class Curvature:
    """The quadratic term of ln y = a + b ln S + c (ln S)² + ε, tested against zero.

    ``coefficient`` is c, with its interval ``low`` … ``high`` of confidence ``level``: positive where the points bend
    upwards, so that growth pays less and less. ``t`` and ``p`` (two-sided) have ``df`` = ``n`` − 3.
    """

    coefficient: float
    low: float
    high: float
    t: float
    p: float
    df: int
    n: int
    level: float


def curvature(size: npt.ArrayLike, value: npt.ArrayLike, *, level: float = 0.95) -> Curvature:
    """Test whether ln y is straight in ln S, by ordinary least squares.

    ``size`` and ``value`` have shape (n,), n ≥ 4. Raises what ``fit_power_law`` raises, and FitError for fewer than
    four points or for a parabola that passes through every point, which leaves no scatter to test against.
    """
    check_level(level)
    sizes, values = check_points(size, value, minimum=4)
    x = np.log(sizes)
    x -= x.mean()
    results = OLS(np.log(values), np.column_stack([np.ones_like(x), x, x**2])).fit()
    if results.ssr <= x.size * ROUNDING**2:
        raise FitError("the parabola passes through every point: no scatter is left to test against", "value")
    low, high = results.conf_int(1 - level)[2]
    return Curvature(
        coefficient=float(results.params[2]),
        low=float(low),
        high=float(high),
        t=float(results.tvalues[2]),
        p=float(results.pvalues[2]),
        df=int(results.df_resid),
        n=x.size,
        level=level,
    )
