"""How many tokens a measurement of the law needs, and what noise alone makes of R² and of α.

A share p = RBP_k of T tokens has the variance d·p(1 − p)/T: binomial for d = 1, and d, the design effect, times that
where tokens of one document hang together (`counting.clustering`). The height of a point of the law is
ln(−ln p), whose standard deviation is `counting.noise.counting_error` times √d. Near p = 1 it is √(d/misses).
"""

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from scipy.stats import t as t_distribution

from rbp.counting.noise import counting_error
from rbp.errors import ParameterError
from rbp.metric import Reals


def noise_floor(tokens: float, *, precision: float = 0.5, design_effect: float = 1.0, level: float = 0.95) -> float:
    """The −ln RBP_k at which `tokens` tell it to within a factor 1 ± precision, at confidence `level`.

    Below it the half-width z·sd of its interval is more than `precision` of its own value, and a difference between
    models of that size cannot be told from noise. It is −ln(1 − m/T), m = d·(z/precision)² missed tokens (with the
    binomial's own 1 − m/T): 15 misses for one half at 95%, if tokens are independent. Infinite where even all
    tokens missed would not do.
    """
    _positive(tokens=tokens, precision=precision, design_effect=design_effect)
    # solve d·(e^y − 1)/T = (precision·y/z)² for y: the left side grows from d·y/T, the right from 0
    z = norm.ppf((1 + level) / 2)
    y = design_effect * (z / precision) ** 2 / tokens
    for _ in range(200):
        following = design_effect * (z / precision) ** 2 / tokens * np.expm1(y) / y
        if not np.isfinite(following) or following > 50:
            return float("inf")
        if abs(following - y) <= 1e-14 * y:
            break
        y = following
    return float(y)


def simulated_r_squared(
    size: npt.ArrayLike,
    alpha: float,
    typical: float,
    tokens: float,
    *,
    design_effect: float = 1.0,
    resamples: int = 2000,
    seed: int = 0,
) -> Reals:
    """R² of `resamples` measurements of a perfect law, in which counting tokens is the only noise; shape (resamples,).

    The law is −ln RBP_k = typical·(S/S₀)^(−alpha), S₀ the geometric mean of `size`, shape (n,). Each model's misses
    are binomial out of T/d tokens, independent between models: models that read the same text share misses, which
    makes a real family's points scatter less than this. Draws without a miss somewhere are left out (NaN).
    """
    _positive(typical=typical, tokens=tokens, design_effect=design_effect)
    x = np.log(np.asarray(size, dtype=float))
    x = x - x.mean()
    value = typical * np.exp(-alpha * x)
    total = max(round(tokens / design_effect), 1)
    rng = np.random.default_rng(seed)
    misses = rng.binomial(total, -np.expm1(-value), size=(resamples, x.size)).astype(float)
    misses[(misses == 0) | (misses == total)] = np.nan
    y = np.log(-np.log1p(-misses / total))
    y = y - y.mean(axis=1, keepdims=True)
    slope = y @ x / (x @ x)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Reals = 1 - ((y - slope[:, None] * x) ** 2).sum(axis=1) / (y**2).sum(axis=1)
    return found


def alpha_error(
    size: npt.ArrayLike, value: npt.ArrayLike, tokens: float, *, design_effect: float = 1.0, scatter: float = 0.0
) -> float:
    """The standard error of α by least squares of ln y on ln S, y = `value` = −ln RBP_k, shape (n,).

    Counting noise of `tokens` for each model, independent between models, and a scatter of the models about the law
    (standard deviation of ln y) that no number of tokens takes away.
    """
    _positive(tokens=tokens, design_effect=design_effect)
    return float(np.sqrt(_of_slope(size, design_effect * counting_error(value, tokens) ** 2 + scatter**2)))


def tokens_needed(
    size: npt.ArrayLike,
    value: npt.ArrayLike,
    half_width: float,
    *,
    design_effect: float = 1.0,
    scatter: float = 0.0,
    level: float = 0.95,
) -> float:
    """How many tokens each model must be measured on for α to be known to ± `half_width` at confidence `level`.

    size, value: shape (n,), n ≥ 3: the models, and about what −ln RBP_k they have. The interval is Student's, of
    n − 2 degrees of freedom, as that of a fit. Infinite where the models' own scatter about the law is too large.
    """
    _positive(half_width=half_width, design_effect=design_effect)
    count = np.asarray(size).size
    if count < 3:
        raise ParameterError(f"{count} models make no interval of α", "size", "Give at least three.")
    goal = (half_width / t_distribution.ppf((1 + level) / 2, count - 2)) ** 2
    left = goal - _of_slope(size, np.full(count, scatter**2))
    of_one_token = _of_slope(size, design_effect * counting_error(value, 1) ** 2)
    return of_one_token / left if left > 0 else float("inf")


def _of_slope(size: npt.ArrayLike, variance: Reals) -> float:
    """The variance of the least-squares slope on ln S where the points' variances are these."""
    x = np.log(np.asarray(size, dtype=float))
    x = x - x.mean()
    return float((x**2 @ variance) / (x @ x) ** 2)


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ParameterError(f"it must be above 0, not {value}", name, "Check it.")
