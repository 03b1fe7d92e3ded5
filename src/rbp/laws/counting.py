"""Errors by counting: a share of N tokens is known to its binomial error, and α with it."""

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, betaincinv, stdtrit

from rbp.arrays import Reals, check_level
from rbp.errors import DataError, ParameterError


def neg_log_rbp_interval(
    hits: npt.ArrayLike, tokens: npt.ArrayLike, level: float = 0.95
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the interval (low, high) of −ln RBP_k when `hits` of `tokens` independent tokens have rank ≤ k.

    Clopper and Pearson's exact binomial interval of the share, put through −ln: it covers at least `level`.
    Tokens of one text are not independent, so the true uncertainty is larger. Raises DataError unless
    0 ≤ hits ≤ tokens and tokens ≥ 1; ParameterError unless 0 < level < 1.
    """
    share = _share(hits, tokens)
    check_level(level)
    count, total = np.asarray(hits), np.asarray(tokens)
    low = np.where(share > 0, betaincinv(count, total - count + 1, (1 - level) / 2), 0.0)
    high = np.where(share < 1, betainccinv(count + 1, total - count, (1 - level) / 2), 1.0)
    with np.errstate(divide="ignore"):
        return -np.log(high) + 0.0, -np.log(low)


def neg_log_rbp_variance(hits: npt.ArrayLike, tokens: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the sampling variance of −ln RBP_k, (1 − p)/(p·tokens) with p = hits/tokens (delta method).

    Infinite where hits is 0. Tokens are taken as independent. Raises DataError as `neg_log_rbp_interval`.
    """
    p = _share(hits, tokens)
    with np.errstate(divide="ignore"):
        return np.asarray((1 - p) / (p * np.asarray(tokens)), dtype=np.float64)


def _share(hits: npt.ArrayLike, tokens: npt.ArrayLike) -> Reals:
    count, total = np.asarray(hits, dtype=np.float64), np.asarray(tokens, dtype=np.float64)
    if not ((count >= 0) & (count <= total) & (total >= 1)).all():
        raise DataError("hits must lie between 0 and tokens, and tokens be at least 1", "hits", "Check them.")
    return np.asarray(count / total, dtype=np.float64)


def counting_error(value: npt.ArrayLike, tokens: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the standard deviation of ln(−ln RBP_k) by counting alone: a binomial share of N independent tokens.

    The delta method: with p = RBP_k and y = −ln p, sd(ln y) = √((1 − p)/(p·N))/y; near p = 1 this is one over the
    root of the number of missed tokens. `value` is y; shapes broadcast. Neighbouring tokens are not independent,
    which makes the true error larger; models that read the same text miss the same tokens, which makes the scatter
    between them smaller.
    """
    y = np.asarray(value, dtype=np.float64)
    n = np.asarray(tokens, dtype=np.float64)
    return np.sqrt(np.expm1(y) / n) / y


def tokens_needed(
    size: npt.ArrayLike,
    value: npt.ArrayLike,
    half_width: float,
    *,
    design_effect: float = 1.0,
    level: float = 0.95,
) -> float:
    """Compute how many tokens each model must be measured on for α to be known to ± `half_width` at `level`.

    size, value: shape (n,), n ≥ 3: the models, and about what −ln RBP_k they have. The interval is Student's, of
    n − 2 degrees of freedom, as a fit's. Counting is the only noise.
    """
    for name, positive in {"half_width": half_width, "design_effect": design_effect}.items():
        if not positive > 0:
            raise ParameterError(f"it must be above 0, not {positive}", name, "Check it.")
    count = np.asarray(size).size
    if count < 3:
        raise ParameterError(f"{count} models make no interval of α", "size", "Give at least three.")
    goal = (half_width / stdtrit(count - 2, (1 + level) / 2)) ** 2
    x = np.log(np.asarray(size, dtype=float))
    x = x - x.mean()
    slope_variance = (x**2 @ (design_effect * counting_error(value, 1) ** 2)) / (x @ x) ** 2  # of least squares
    return float(slope_variance / goal)
