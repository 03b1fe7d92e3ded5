"""A power law with an irreducible offset, y = E + A·S^(−α), fitted on the log scale like the pure law.

Both laws then share one noise model, so their residual sums of squares can be compared.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq, least_squares, minimize_scalar
from scipy.special import expit, fdtri, stdtrit

from rbp.core.arrays import Reals, as_positive, check_level
from rbp.core.errors import FitError
from rbp.stats.newton import minimum
from rbp.stats.power_law import ROUNDING, WEAK, asked_sizes, check_points, public

STARTS = 8  # exponents of either sign from which the search sets out


@dataclass(frozen=True)
class OffsetFit:
    """A fitted offset law; every interval is a profile interval of the confidence ``level``.

    ``offset`` is E ≥ 0 in units of y; ``offset_low`` is exactly 0 where E = 0 is not excluded. ``alpha_high``
    is inf (``alpha_low`` −inf) where no exponent, however large, is excluded. ``prefactor`` is A. ``rss`` is
    the residual sum of squares of ln y, ``df`` = n − 3. ``distinguishable``: the interval of E leaves out 0.
    ``statement`` says so in a sentence. ``weak``: n ≤ 4.
    """

    offset: float
    offset_low: float
    offset_high: float
    alpha: float
    alpha_low: float
    alpha_high: float
    prefactor: float
    rss: float
    n: int
    df: int
    level: float
    weak: bool
    size_min: float
    size_max: float
    _point: Reals = field(repr=False, compare=False)
    _covariance: Reals = field(repr=False, compare=False)
    _centre: float = field(repr=False, compare=False)
    _unit: float = field(repr=False, compare=False)

    @property
    def distinguishable(self) -> bool:
        """Whether the interval of E leaves out 0."""
        return self.offset_low > 0

    @property
    def statement(self) -> str:
        """Whether E can be told from 0, in one sentence."""
        ends = f"{self.offset_low:.3g} to {self.offset_high:.3g}"
        interval = f"{100 * self.level:.4g}% interval {ends}, {self.n} points"
        verdict = "can be told from 0" if self.distinguishable else "cannot be told from 0"
        return f"An offset {verdict}: E = {self.offset:.3g} ({interval})."

    def predict(self, size: npt.ArrayLike) -> pd.DataFrame:
        """The law at each of ``size`` (shape (m,)), with the columns of ``PowerLawFit.predict``.

        The intervals are approximate: delta method on ln y with the t quantile of n − 3 degrees of freedom,
        which takes the law to be linear in its parameters near the best fit. Raises ParameterError for a size
        that is not positive and finite.
        """
        sizes = asked_sizes(size)
        x = np.log(sizes) - self._centre
        law = _law(self._point, x)
        gradient = _sensitivity(self._point, x)
        of_line = np.einsum("mi,ij,mj->m", gradient, self._covariance, gradient)
        of_new = of_line + self.rss / self.df
        quantile = stdtrit(self.df, (1 + self.level) / 2)
        columns = {"value": law}
        for prefix, variance in (("mean_", of_line), ("", of_new)):
            columns[f"{prefix}low"] = law - quantile * np.sqrt(variance)
            columns[f"{prefix}high"] = law + quantile * np.sqrt(variance)
        return pd.DataFrame({"size": sizes} | {name: self._unit * np.exp(c) for name, c in columns.items()})

    def as_dict(self) -> dict[str, float | int | bool]:
        """The public fields by name, and ``distinguishable``."""
        return public(self) | {"distinguishable": self.distinguishable}


def fit_offset(size: npt.ArrayLike, value: npt.ArrayLike, *, level: float = 0.95) -> OffsetFit:
    """Fit ln y = ln(E + A·S^(−α)) + ε with E ≥ 0 by least squares from several starts.

    ``size`` and ``value`` have shape (n,), n ≥ 4. The interval of E (and of α) holds every E at which the best fit of
    the other two parameters has RSS ≤ RSS_min·(1 + F(level; 1, n − 3)/(n − 3)). As the noise is on the log scale, E may
    exceed the smallest value. Raises FitError as ``fit_power_law`` does, and for fewer than 4 points.
    """
    check_level(level)
    sizes, values = check_points(size, value, minimum=4)
    centre, unit = float(np.log(sizes).mean()), float(np.exp(np.log(values).mean()))
    x, y = np.log(sizes) - centre, np.log(values / unit)
    n, df = x.size, x.size - 3
    profile = _Profile(x, y)
    point, rss = profile.best()
    cut = max(rss, n * ROUNDING**2) * (1 + float(fdtri(1, df, level)) / df)

    largest = float(np.exp(y.max()))
    while profile.at_offset(largest) <= cut:
        largest *= 2
    offset = float(np.exp(point[2]))
    alpha = float(point[1])
    alpha_low = edge(profile.at_alpha, alpha, min(profile.rising, alpha), cut)
    alpha_high = edge(profile.at_alpha, alpha, max(profile.steepest, alpha), cut)

    jacobian = _sensitivity(point, x)
    with np.errstate(over="ignore"):  # a step-like fit has an A beyond the largest float: inf says so
        prefactor = unit * float(np.exp(point[0] + alpha * centre))
    return OffsetFit(
        offset=unit * offset,
        offset_low=unit * edge(profile.at_offset, offset, 0.0, cut),
        offset_high=unit * edge(profile.at_offset, offset, largest, cut),
        alpha=alpha,
        alpha_low=-np.inf if alpha_low <= profile.rising else alpha_low,
        alpha_high=np.inf if alpha_high >= profile.steepest else alpha_high,
        prefactor=prefactor,
        rss=rss,
        n=n,
        df=df,
        level=level,
        weak=n <= WEAK,
        size_min=float(sizes.min()),
        size_max=float(sizes.max()),
        _point=point,
        _covariance=np.asarray(rss / df * np.linalg.pinv(jacobian.T @ jacobian), dtype=np.float64),
        _centre=centre,
        _unit=unit,
    )


def extended(size: npt.ArrayLike, value: npt.ArrayLike, at: npt.ArrayLike) -> tuple[float, Reals]:
    """E of the law that `fit_offset` finds, and that law at the sizes `at` (shape (m,)): intervals take far longer."""
    sizes, values = check_points(size, value, minimum=4)
    centre, unit = float(np.log(sizes).mean()), float(np.exp(np.log(values).mean()))
    point, _ = _Profile(np.log(sizes) - centre, np.log(values / unit)).best()
    further = as_positive(np.asarray(at), "at")
    return unit * float(np.exp(point[2])), unit * np.exp(_law(point, np.log(further) - centre))


def _law(point: Reals, x: Reals) -> Reals:
    """ln(E + A·S^(−α)) at centred ln S; ``point`` is (ln A at the centre, α, ln E), ln E = −inf for E = 0."""
    return np.asarray(np.logaddexp(point[0] - point[1] * x, point[2]))


def _sensitivity(point: Reals, x: Reals) -> Reals:
    """Derivatives of the law by (ln A, α, E), shape (n, 3): by E, not ln E, so that they exist at E = 0."""
    share = expit(point[0] - point[1] * x - point[2])
    return np.column_stack([share, -share * x, np.exp(-_law(point, x))])


class _Profile:
    """Least residual sums of squares, over all parameters or with one of them held.

    Parameters are (ln A, α, ln E): no bounds are needed, and the Jacobian's entries are the shares of the two
    terms. The edges that logarithms cannot reach, E = 0 and A = 0, are laws of their own and are compared
    directly.
    """

    def __init__(self, x: Reals, y: Reals) -> None:
        self.x, self.y = x, y
        slope, level = np.polyfit(x, y, 1)
        self.pure = np.array([level, -slope, -np.inf])
        distinct = np.unique(x)
        # At these exponents A·S^(−α) has vanished at all sizes but the largest, or the smallest: larger ones
        # give the same law.
        self.rising = -40 / float(distinct[-1] - distinct[-2])
        self.steepest = 40 / float(distinct[1] - distinct[0])
        gentle = 0.1 / (distinct[-1] - distinct[0])
        scan = [
            self._mix(sign * alpha)
            for sign, end in ((1, self.steepest), (-1, -self.rising))
            for alpha in np.geomspace(gentle, end, STARTS)
        ]
        polished = [self._polish(start, (0, 1, 2)) for start, _ in scan if np.isfinite(start[2])]
        ranked = sorted((self.pure, *polished), key=self._rss)
        # Starts that ran into the same optimum are one.
        self.optima = [
            p for i, p in enumerate(ranked) if not any(abs(p[1] - q[1]) < 1e-2 * abs(q[1]) for q in ranked[:i])
        ]

    def best(self) -> tuple[Reals, float]:
        """The best point and its RSS."""
        least = self._rss(self.optima[0])
        pure = self._rss(self.pure)
        # Where E = 0 is best, the search creeps up to it without arriving.
        if pure <= least * (1 + 1e-9) + self.x.size * ROUNDING**2:
            return self.pure, pure
        point = self.optima[0]
        with contextlib.suppress(FitError):  # where the law is a step between two sizes, any steep enough α gives it
            point = minimum(self._loss, point)
        return point, self._rss(point)

    def at_offset(self, offset: float) -> float:
        """The least RSS with E held."""
        if offset == 0:
            return self._rss(self.pure)
        held = np.log(offset)
        constant = float(np.sum((self.y - held) ** 2))  # A = 0
        # The optima, and the line through what is left of y above E (little, where E exceeds the smallest y).
        above = np.log(np.maximum(np.exp(self.y) - offset, 0.01 * np.exp(self.y)))
        slope, level = np.polyfit(self.x, above, 1)
        starts = [(level, -slope), *((level, alpha) for level, alpha, _ in self.optima[:2])]
        return min(constant, *(self._rss(self._polish(np.array([*start, held]), (0, 1))) for start in starts))

    def at_alpha(self, alpha: float) -> float:
        """The least RSS with α held."""
        return self._mix(alpha)[1]

    def _mix(self, alpha: float) -> tuple[Reals, float]:
        """The best point with α held, and its RSS: only the mix of the two terms, q = ln(E/A), is searched.

        The common factor is a shift of ln y, so its best value is a mean. RSS can bend only where the two
        terms meet at some point, q = −α·x, so the search is dense there.
        """

        def misfit(q: Reals) -> Reals:
            return np.asarray(self.y - np.logaddexp(-alpha * self.x, q[..., None]))

        meet = np.sort(np.ravel(-alpha * self.x[:, None] + np.linspace(-15, 15, 31)))
        at = int(np.argmin(np.var(misfit(meet), axis=-1)))
        around = (meet[max(at - 1, 0)], meet[min(at + 1, meet.size - 1)])
        refined = minimize_scalar(
            lambda q: float(np.var(misfit(np.asarray(q)))),
            bounds=around,
            method="bounded",
            options={"xatol": 1e-9},
        )
        mixes = np.array([refined.x, meet[at], -np.inf])  # the last is E = 0
        left = misfit(mixes)
        pick = int(np.argmin(np.var(left, axis=-1)))
        shift = float(left[pick].mean())
        point = np.array([shift, alpha, shift + mixes[pick]])
        constant = float(np.sum((self.y - self.y.mean()) ** 2))  # A = 0
        return point, min(constant, self._rss(point))

    def _polish(self, start: Reals, free: tuple[int, ...]) -> Reals:
        columns = list(free)

        def fill(part: Reals) -> Reals:
            point = start.copy()
            point[columns] = part
            return point

        def residuals(part: Reals) -> Reals:
            return _law(fill(part), self.x) - self.y

        def jacobian(part: Reals) -> Reals:
            point = fill(part)
            share = expit(point[0] - point[1] * self.x - point[2])
            return np.column_stack([share, -share * self.x, 1 - share])[:, columns]

        with np.errstate(over="ignore", invalid="ignore"):  # a step too far is taken back
            solved = least_squares(residuals, start[columns], jacobian, method="lm", xtol=1e-12, ftol=1e-14, gtol=1e-14)
        return fill(solved.x)

    def _loss(self, point: Reals) -> tuple[float, Reals, Reals]:
        """Half of RSS, its gradient and its Hessian."""
        away = _law(point, self.x) - self.y
        share = expit(point[0] - point[1] * self.x - point[2])
        slopes = np.column_stack([share, -share * self.x, 1 - share])
        mixing = np.column_stack([np.ones_like(share), -self.x, -np.ones_like(share)])
        bend = (mixing * (away * share * (1 - share))[:, None]).T @ mixing
        return float(away @ away) / 2, slopes.T @ away, slopes.T @ slopes + bend

    def _rss(self, point: Reals) -> float:
        rss = float(np.sum((_law(point, self.x) - self.y) ** 2))
        return rss if np.isfinite(rss) else np.inf


def edge(rss: Callable[[float], float], best: float, far: float, cut: float) -> float:
    """The outermost crossing of ``rss`` and ``cut`` from ``best`` to ``far``; ``far`` if that is inside."""
    outside = far
    for halving in range(60):
        inside = best + (far - best) / 2**halving
        if rss(inside) <= cut:
            if halving == 0:
                return far
            return float(brentq(lambda at: rss(at) - cut, inside, outside, xtol=1e-13, rtol=1e-13))
        outside = inside
    return best
