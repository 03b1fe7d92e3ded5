"""Test whether points scatter about their power law by more than counting noise, and estimate by how much."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import chdtri, xlogy

from rbp.arrays import Reals, check_level
from rbp.errors import DataError, FitError
from rbp.laws.counting import counting_error

_STEPS = 100  # of Fisher's scoring: ten are the rule


def fit_counts(size: npt.ArrayLike, misses: npt.ArrayLike, tokens: float) -> tuple[Reals, Reals]:
    """Fit −ln RBP_k = C·S^(−α) to counts by binomial maximum likelihood, to many sets of counts at once.

    size: shape (n,); misses: shape (…, n), the tokens of rank above k among `tokens` of each model, at least one in
    each set. A share of misses is 1 − exp(−C·S^(−α)): the generalized linear model of the complementary log-log link.
    Returns ln(−ln RBP_k) of the fitted lines, shape (…, n), and their deviances, shape (…).
    """
    x = np.log(np.asarray(size, dtype=float))
    x = x - x.mean()
    count = np.asarray(misses, dtype=float)
    # half a token more, so that a share of 0 or 1 has a logarithm to start from
    line = np.log(-np.log1p(-(count + 0.5) / (tokens + 1)))
    weight = np.ones_like(line)
    working = line
    for _ in range(_STEPS):
        before = line
        line = _line(x, working, weight)
        value = np.exp(np.clip(line, -50, 3.5))  # where no count says how far a line falls, it need not fall for ever
        line = np.log(value)
        share, slope = -np.expm1(-value), value * np.exp(-value)
        weight = slope**2 / (share * np.exp(-value))
        working = line + (count / tokens - share) / slope
        if np.abs(line - before).max() < 1e-9:  # the deviance is flat there: known to 1e-12
            break
    deviance = 2 * (
        xlogy(count, count / (tokens * share)) + xlogy(tokens - count, (tokens - count) / (tokens * np.exp(-value)))
    )
    return line, np.asarray(deviance.sum(axis=-1), dtype=float)


def _line(x: Reals, y: Reals, weight: Reals) -> Reals:
    """Compute the weighted least-squares line of y on x, at x; shapes (n,), (…, n), (…, n)."""
    total = weight.sum(axis=-1, keepdims=True)
    middle = (weight * x).sum(axis=-1, keepdims=True) / total
    height = (weight * y).sum(axis=-1, keepdims=True) / total
    away = x - middle
    slope = (weight * away * y).sum(axis=-1, keepdims=True) / (weight * away**2).sum(axis=-1, keepdims=True)
    fitted: Reals = height + slope * away
    return fitted


@dataclass(frozen=True)
class Scatter:
    """The scatter of points about their power law, compared with counting noise.

    deviance, df: of the binomial fit. p: the probability that counting alone makes a deviance so large. counting: the
    standard deviation of ln(−ln RBP_k) that counting makes (root mean square over the models). extra, with extra_low
    and extra_high: the standard deviation of models about the law beyond counting, by Q-profile; 0 where counting
    makes as much as is seen. All for one design effect.
    """

    deviance: float
    df: int
    p: float
    counting: float
    extra: float
    extra_low: float
    extra_high: float

    @property
    def enough(self) -> bool:
        """Whether the data show counting to be most of the scatter: all of the interval of `extra` lies below it."""
        return self.extra_high <= self.counting


def scatter_about_law(
    size: npt.ArrayLike,
    misses: npt.ArrayLike,
    tokens: float,
    *,
    design_effects: tuple[float, ...] = (1.0,),
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[Scatter]:
    """Test the scatter of counts about −ln RBP_k = C·S^(−α), and estimate the scatter beyond counting.

    size, misses: shape (n,), n ≥ 3 different sizes, every model with a miss and a hit. The test is of the binomial
    deviance about the fitted line, against counts drawn from it; for tokens that cluster it is divided by the design
    effect (Rao and Scott 1984). The scatter beyond is that of a random effect of each model on ln(−ln RBP_k), by Paule
    and Mandel (1982), its interval the Q-profile's (Viechtbauer 2007). One `Scatter` for each of `design_effects`.
    Raises FitError for fewer than three sizes, DataError for counts without a logarithm.
    """
    check_level(level)
    x, count = np.asarray(size, dtype=float), np.asarray(misses, dtype=float)
    if np.unique(x).size < 3:
        raise FitError("scatter about a line needs at least three sizes", "size", "Give more models.")
    if not ((count > 0) & (count < tokens)).all():
        raise DataError("each model must miss some tokens, and hit some", "misses", "Leave the others out.")
    line, deviance = fit_counts(x, count, tokens)
    value = np.exp(line)
    rng = np.random.default_rng(seed)
    sampled = rng.binomial(round(tokens), -np.expm1(-value), size=(resamples, x.size))
    sampled[~sampled.any(axis=1), 0] = 1  # without any miss there is no line: a deviance near 0 either way
    by_chance = fit_counts(x, sampled, tokens)[1]
    y = np.log(-np.log1p(-count / tokens))
    scatters = []
    for effect in design_effects:
        p = (1 + int((by_chance >= deviance / effect).sum())) / (resamples + 1)
        variance = effect * counting_error(value, tokens) ** 2
        extra, low, high = _extra(np.log(x), y, variance, level)
        counting = float(np.sqrt(variance.mean()))
        scatters.append(Scatter(float(deviance), x.size - 2, p, counting, extra, low, high))
    return scatters


def _extra(x: Reals, y: Reals, variance: Reals, level: float) -> tuple[float, float, float]:
    """Estimate the random effect's standard deviation, and its interval, from points with known `variance`."""
    df = x.size - 2

    def squares(tau: float) -> float:
        weight = 1 / (variance + tau**2)
        return float((weight * (y - _line(x, y, weight)) ** 2).sum())

    largest = 10 * float(np.ptp(y)) + float(np.sqrt(variance.max()))

    def where(height: float) -> float:
        if squares(0.0) <= height:
            return 0.0
        top = largest
        while squares(top) > height:
            top *= 10
        return float(brentq(lambda tau: squares(tau) - height, 0.0, top, xtol=1e-13, rtol=1e-13))

    low, high = chdtri(df, [(1 - level) / 2, (1 + level) / 2])
    return where(df), where(low), where(high)
