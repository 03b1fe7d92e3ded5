"""A power law with an irreducible offset, y = E + A·S^(−α), fitted on the log scale like the pure law.

Both laws then share one noise model, so their residual sums of squares can be compared.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import brentq, least_squares
from scipy.special import expit
from scipy.stats import f as f_distribution
from scipy.stats import t as t_distribution

from rbp.errors import FitError, ParameterError
from rbp.scaling.points import ROUNDING, Floats, as_positive, check_level, check_points
from rbp.scaling.powerlaw import WEAK

STARTS = (0.02, 0.25, 0.5, 0.75, 0.9, 0.99)  # first guesses of E, in units of the smallest value


@dataclass(frozen=True)
class OffsetFit:
    """A fitted offset law; every interval is a profile interval of the confidence ``level``.

    ``offset`` is E ≥ 0 in units of y; ``offset_low`` is exactly 0 where E = 0 is not excluded. ``alpha_high`` is
    inf (``alpha_low`` −inf) where no exponent, however large, is excluded. ``prefactor`` is A. ``rss`` is the
    residual sum of squares of ln y, ``df`` = n − 3. ``distinguishable``: the interval of E leaves out 0.
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
    _point: Floats = field(repr=False, compare=False)
    _covariance: Floats = field(repr=False, compare=False)
    _centre: float = field(repr=False, compare=False)
    _unit: float = field(repr=False, compare=False)

    @property
    def distinguishable(self) -> bool:
        return self.offset_low > 0

    @property
    def statement(self) -> str:
        interval = f"{self.level:.4g} interval {self.offset_low:.3g} to {self.offset_high:.3g}, {self.n} points"
        verdict = "can be told from 0" if self.distinguishable else "cannot be told from 0"
        return f"An offset {verdict}: E = {self.offset:.3g} ({interval})."

    def predict(self, size: npt.ArrayLike) -> pd.DataFrame:
        """The law at each of ``size`` (shape (m,)), with the columns of ``PowerLawFit.predict``.

        The intervals are approximate: delta method on ln y with the t quantile of n − 3 degrees of freedom, which
        takes the law to be linear in its parameters near the best fit. Raises ParameterError for a size that is not
        positive and finite.
        """
        try:
            sizes = as_positive(np.atleast_1d(np.asarray(size)), "size")
        except FitError as error:
            raise ParameterError(error.what, error.where, "Give sizes as positive numbers of parameters.") from None
        x = np.log(sizes) - self._centre
        law = _law(self._point, x)
        gradient = _sensitivity(self._point, x)
        of_line = np.einsum("mi,ij,mj->m", gradient, self._covariance, gradient)
        of_new = of_line + self.rss / self.df
        quantile = t_distribution.ppf((1 + self.level) / 2, self.df)
        columns = {"value": law}
        for prefix, variance in (("mean_", of_line), ("", of_new)):
            columns[f"{prefix}low"] = law - quantile * np.sqrt(variance)
            columns[f"{prefix}high"] = law + quantile * np.sqrt(variance)
        return pd.DataFrame({"size": sizes} | {name: self._unit * np.exp(c) for name, c in columns.items()})

    def as_dict(self) -> dict[str, float | int | bool]:
        """The public fields by name, and ``distinguishable``."""
        public = {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}
        return public | {"distinguishable": self.distinguishable}


def fit_offset(size: npt.ArrayLike, value: npt.ArrayLike, *, level: float = 0.95) -> OffsetFit:
    """Fit ln y = ln(E + A·S^(−α)) + ε with E ≥ 0 by least squares from several starts.

    ``size`` and ``value`` have shape (n,), n ≥ 4. The interval of E (and of α) holds every E at which the best fit of
    the other two parameters has RSS ≤ RSS_min·(1 + F(level; 1, n − 3)/(n − 3)). The noise is on the log scale, so E
    may exceed the smallest value; its upper end is finite all the same, because RSS grows without bound with E.

    Raises FitError as ``fit_power_law`` does, and for fewer than 4 points (three parameters leave none over).
    """
    check_level(level)
    sizes, values = check_points(size, value, minimum=4)
    centre, unit = float(np.log(sizes).mean()), float(np.exp(np.log(values).mean()))
    x, y = np.log(sizes) - centre, np.log(values / unit)
    n, df = x.size, x.size - 3
    profile = _Profile(x, y)
    point, rss = profile.best()
    cut = max(rss, n * ROUNDING**2) * (1 + float(f_distribution.ppf(level, 1, df)) / df)

    largest = float(np.exp(y.max()))
    while profile.at_offset(largest) <= cut:
        largest *= 2
    offset = float(np.exp(point[2]))
    distinct = np.unique(x)
    # At these exponents A·S^(−α) has vanished at every size but the smallest (largest): a steeper law fits no worse.
    steepest, most_rising = 40 / (distinct[1] - distinct[0]), -40 / (distinct[-1] - distinct[-2])
    alpha = float(point[1])
    alpha_low = _edge(profile.at_alpha, alpha, min(most_rising, alpha), cut)
    alpha_high = _edge(profile.at_alpha, alpha, max(steepest, alpha), cut)

    jacobian = _sensitivity(point, x)
    with np.errstate(over="ignore"):  # a step-like fit has an A beyond the largest float: inf says so
        prefactor = unit * float(np.exp(point[0] + alpha * centre))
    return OffsetFit(
        offset=unit * offset,
        offset_low=unit * _edge(profile.at_offset, offset, 0.0, cut),
        offset_high=unit * _edge(profile.at_offset, offset, largest, cut),
        alpha=alpha,
        alpha_low=-np.inf if alpha_low <= most_rising else alpha_low,
        alpha_high=np.inf if alpha_high >= steepest else alpha_high,
        prefactor=prefactor,
        rss=rss,
        n=n,
        df=df,
        level=level,
        weak=n <= WEAK,
        size_min=float(sizes.min()),
        size_max=float(sizes.max()),
        _point=point,
        _covariance=rss / df * np.linalg.pinv(jacobian.T @ jacobian),
        _centre=centre,
        _unit=unit,
    )


def _law(point: Floats, x: Floats) -> Floats:
    """ln(E + A·S^(−α)) at centred ln S; ``point`` is (ln A at the centre, α, ln E), and E = 0 is ln E = −inf."""
    return np.logaddexp(point[0] - point[1] * x, point[2])


def _sensitivity(point: Floats, x: Floats) -> Floats:
    """Derivatives of the law by (ln A, α, E), shape (n, 3): by E, not ln E, so that they exist at E = 0."""
    share = expit(point[0] - point[1] * x - point[2])
    return np.column_stack([share, -share * x, np.exp(-_law(point, x))])


class _Profile:
    """Least residual sums of squares, over all parameters or with one of them held.

    Parameters are (ln A, α, ln E): no bounds are needed, and the Jacobian's entries are the shares of the two terms.
    The edges that logarithms cannot reach, E = 0 and A = 0, are laws of their own and are compared directly.
    """

    def __init__(self, x: Floats, y: Floats) -> None:
        self.x, self.y = x, y
        slope, level = np.polyfit(x, y, 1)
        self.pure = np.array([level, -slope, -np.inf])
        self.starts = [self._start(fraction * float(np.exp(y.min()))) for fraction in STARTS]

    def best(self) -> tuple[Floats, float]:
        """The best point and its RSS."""
        candidates = [self.pure, *(self._polish(start, (0, 1, 2)) for start in self.starts)]
        point = min(candidates, key=self._rss)
        self.starts.append(point)
        return point, self._rss(point)

    def at_offset(self, offset: float) -> float:
        """The least RSS with E held."""
        if offset == 0:
            return self._rss(self.pure)
        held = np.log(offset)
        starts = [self._start(min(offset, 0.99 * float(np.exp(self.y.min())))), self.starts[-1]]
        constant = float(np.sum((self.y - held) ** 2))  # A = 0
        return min(constant, *(self._held(start, 2, held) for start in starts))

    def at_alpha(self, alpha: float) -> float:
        """The least RSS with α held."""
        line = self.y + alpha * self.x  # E = 0
        constant = self.y - self.y.mean()  # A = 0
        edges = (float(np.sum((line - line.mean()) ** 2)), float(constant @ constant))
        # ln A is that of the centre of the sizes: with a steep α the two terms meet at the smallest size, far from it
        meet = abs(alpha) * np.array([0.0, 0.5, 1.0]) * float(self.x[0 if alpha < 0 else -1])
        del meet
        return min(*edges, *(self._held(start, 1, alpha) for start in self.starts))

    def _held(self, start: Floats, index: int, held: float) -> float:
        start = start.copy()
        start[index] = held
        return self._rss(self._polish(start, tuple(i for i in range(3) if i != index)))

    def _start(self, offset: float) -> Floats:
        slope, level = np.polyfit(self.x, np.log(np.exp(self.y) - offset), 1)
        return np.array([level, -slope, np.log(offset)])

    def _polish(self, start: Floats, free: tuple[int, ...]) -> Floats:
        columns = list(free)

        def fill(part: Floats) -> Floats:
            point = start.copy()
            point[columns] = part
            return point

        def residuals(part: Floats) -> Floats:
            return _law(fill(part), self.x) - self.y

        def jacobian(part: Floats) -> Floats:
            point = fill(part)
            share = expit(point[0] - point[1] * self.x - point[2])
            return np.column_stack([share, -share * self.x, 1 - share])[:, columns]

        solved = least_squares(residuals, start[columns], jacobian, method="lm", xtol=1e-12, ftol=1e-14, gtol=1e-14)
        return fill(solved.x)

    def _rss(self, point: Floats) -> float:
        return float(np.sum((_law(point, self.x) - self.y) ** 2))


def _edge(rss: Callable[[float], float], best: float, far: float, cut: float) -> float:
    """Where ``rss`` crosses ``cut`` between ``best`` and ``far``, the outermost crossing; ``far`` if it never does."""
    outside = far
    for halving in range(60):
        inside = best + (far - best) / 2**halving
        if rss(inside) <= cut:
            if halving == 0:
                return far
            return float(brentq(lambda at: rss(at) - cut, inside, outside, xtol=1e-12, rtol=1e-12))
        outside = inside
    return best
