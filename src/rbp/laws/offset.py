"""A power law with an irreducible offset, y = E + A·S^(−α), fitted on the log scale like the pure law.

Both laws then share one noise model, so their residual sums of squares can be compared. `rbp.laws.misfit` finds it.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtrit

from rbp.arrays import Reals, as_positive, check_level
from rbp.laws.misfit import OFFSET, Bottom, Law, Misfit
from rbp.laws.power import WEAK, check_points, check_sizes, public


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

    @property
    def distinguishable(self) -> bool:
        """Return whether the interval of E leaves out 0."""
        return self.offset_low > 0

    @property
    def statement(self) -> str:
        """State in one sentence whether E can be distinguished from 0."""
        bounds = f"{self.offset_low:.3g} to {self.offset_high:.3g}"
        interval = f"{100 * self.level:.4g}% interval {bounds}, {self.n} points"
        verdict = "can be distinguished from 0" if self.distinguishable else "cannot be distinguished from 0"
        return f"An offset {verdict}: E = {self.offset:.3g} ({interval})."

    def predict(self, size: npt.ArrayLike) -> pd.DataFrame:
        """Evaluate the law at each of ``size`` (shape (m,)), with the columns of ``PowerLawFit.predict``.

        The intervals are approximate: delta method on ln y with the t quantile of n − 3 degrees of freedom,
        which takes the law to be linear in its parameters near the best fit. Raises ParameterError for a size
        that is not positive and finite.
        """
        sizes = check_sizes(size)
        form = _law_at(sizes, self._centre)
        law, gradient = form.log_values(self._point), form.slopes(self._point)
        of_line = np.einsum("mi,ij,mj->m", gradient, self._covariance, gradient)
        of_new = of_line + self.rss / self.df
        quantile = stdtrit(self.df, (1 + self.level) / 2)
        columns = {"value": law}
        for prefix, variance in (("mean_", of_line), ("", of_new)):
            columns[f"{prefix}low"] = law - quantile * np.sqrt(variance)
            columns[f"{prefix}high"] = law + quantile * np.sqrt(variance)
        return pd.DataFrame({"size": sizes} | {name: np.exp(c) for name, c in columns.items()})

    def as_dict(self) -> dict[str, float | int | bool]:
        """Return the public fields by name, and ``distinguishable``."""
        return public(self) | {"distinguishable": self.distinguishable}


def fit_offset(size: npt.ArrayLike, value: npt.ArrayLike, *, level: float = 0.95) -> OffsetFit:
    """Fit ln y = ln(E + A·S^(−α)) + ε with E ≥ 0 by least squares: the lowest minimum, wherever it is.

    ``size`` and ``value`` have shape (n,), n ≥ 4. The interval of E (and of α) holds every E at which the best fit of
    the other two parameters has RSS ≤ RSS_min·(1 + F(level; 1, n − 3)/(n − 3)). As the noise is on the log scale, E may
    exceed the smallest value. Raises FitError as ``fit_power_law`` does, and for fewer than 4 points.
    """
    check_level(level)
    sizes, misfit, best = _fitted(size, value)
    offset_low, offset_high = misfit.interval("offset", best, level)
    alpha_low, alpha_high = misfit.interval("alpha", best, level)
    term, alpha, offset = best.point.tolist()
    rss, df, slopes = 2 * best.misfit, sizes.size - 3, misfit.slopes(best.point)
    with np.errstate(over="ignore"):  # a step-like fit has an A beyond the largest float: inf says so
        prefactor = float(np.exp(term + alpha * np.log(misfit.centre[0])))
    return OffsetFit(
        offset=offset,
        offset_low=offset_low,
        offset_high=offset_high,
        alpha=alpha,
        alpha_low=-np.inf if alpha_low <= misfit.limits[0] else alpha_low,
        alpha_high=np.inf if alpha_high >= misfit.limits[1] else alpha_high,
        prefactor=prefactor,
        rss=rss,
        n=sizes.size,
        df=df,
        level=level,
        weak=sizes.size <= WEAK,
        size_min=float(sizes.min()),
        size_max=float(sizes.max()),
        _point=best.point,
        _covariance=np.asarray(rss / df * np.linalg.pinv(slopes.T @ slopes), dtype=np.float64),
        _centre=misfit.centre[0],
    )


def extended(size: npt.ArrayLike, value: npt.ArrayLike, new_size: npt.ArrayLike) -> tuple[float, Reals]:
    """Compute E of the law that `fit_offset` finds, and that law at sizes `new_size`, shape (m,), without intervals."""
    _, misfit, best = _fitted(size, value)
    further = as_positive(np.asarray(new_size), "at")
    return float(best.point[2]), np.exp(_law_at(further, misfit.centre[0]).log_values(best.point))


def _fitted(size: npt.ArrayLike, value: npt.ArrayLike) -> tuple[Reals, Misfit, Bottom]:
    sizes, values = check_points(size, value, minimum=4)
    misfit = Misfit(OFFSET, sizes, np.ones_like(sizes), values)
    return sizes, misfit, misfit.fit()


def _law_at(sizes: Reals, centre: float) -> Law:
    return Law(OFFSET, np.log(sizes / centre), np.zeros_like(sizes))
