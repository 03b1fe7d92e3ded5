"""The power law y = A·S^(−α), fitted as a line through ln S and ln y (section 4 and Table 1 of the paper).

And what every fit asks of its points, and whether the line is straight: the coefficient of (ln S)², which a power law
says is zero.
"""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from statsmodels.regression.linear_model import OLS, WLS

from rbp.arrays import Reals, as_positive, check_level
from rbp.errors import FitError, ParameterError

# Residuals of ln y below this are rounding: they must not pass for a measured scatter.
ROUNDING = 1e-12


def check_models(points: pd.DataFrame) -> None:
    """Raise FitError if a model stands twice among the points of one fit: it would make the interval too narrow."""
    if "model" in points.columns and (twice := points["model"].duplicated()).any():
        remedy = "Keep one measurement of each model."
        raise FitError(f"{points.loc[twice, 'model'].iloc[0]} is there twice", "model", remedy)


def check_points(
    size: npt.ArrayLike, value: npt.ArrayLike, *, name: str = "value", minimum: int = 3
) -> tuple[Reals, Reals]:
    """Return sizes and values, both of shape (n,), checked for a line through their logarithms.

    Raises FitError for values or sizes that are not positive and finite, lengths that differ, fewer than ``minimum``
    points, fewer than three different sizes, or values that are all equal: R² is then 1 − 0/0, which the paper's Table
    1 prints as "R² 1.000, slope 0.000" (Qwen2.5 on HumanEval, k = 10000).
    """
    sizes, values = as_positive(size, "size"), as_positive(value, name)
    if sizes.size != values.size:
        raise FitError(f"{sizes.size} sizes but {values.size} values", name, "Give one value for each size.")
    if sizes.size < minimum:
        raise FitError(f"{sizes.size} points are too few: this fit needs at least {minimum}", "size")
    distinct = np.unique(sizes).size
    if distinct < 3:
        raise FitError(f"only {distinct} different sizes: this fit needs at least 3", "size")
    if np.ptp(np.log(values)) < ROUNDING:
        raise FitError(
            f"the values do not vary: all are {values[0]:g}",
            name,
            "R² is undefined, and there is no law to fit.",
        )
    return sizes, values


def check_sizes(size: npt.ArrayLike) -> Reals:
    """Return the sizes at which to evaluate a law, shape (m,). Raises ParameterError unless positive and finite."""
    try:
        return as_positive(np.atleast_1d(np.asarray(size)), "size")
    except FitError as error:
        raise ParameterError(error.what, error.where, "Give sizes as positive numbers of parameters.") from None


def public(fit: Any) -> dict[str, Any]:
    """Return the public fields of a fit by name."""
    return {f.name: getattr(fit, f.name) for f in fields(fit) if not f.name.startswith("_")}


WEAK = 4  # with this many points or fewer, an interval rests on one or two degrees of freedom


def formula(prefactor: float, alpha: float, letter: str = "S") -> str:
    """Write A·S^(−α) with its numbers; the exponent of a law that rises has no sign."""
    return f"{prefactor:.4g} · {letter}^" + (f"(−{alpha:.4f})" if alpha >= 0 else f"{-alpha:.4f}")


def direction(alpha: float, low: float, high: float, letter: str = "S") -> str:
    """Say that a law rises, or that it does not change significantly, at the interval's level; "" of one that falls."""
    if low <= 0 <= high:
        return f"; it {'rises' if alpha < 0 else 'falls'} with {letter}, but not significantly: the interval includes 0"
    return f"; it rises with {letter}" if alpha < 0 else ""


@dataclass(frozen=True)
class PowerLawFit:
    """A fitted power law; every interval has the confidence ``level``.

    ``alpha`` is the positive exponent (the paper prints the slope, −α). ``prefactor`` is A, the value at S =
    1, in units of y. ``r_squared`` is taken on the log scale (weighted where the fit is). ``residual_se`` is
    the standard deviation of the residuals of ln y. ``scale`` is None for OLS; for a weighted fit it is the
    mean squared residual in units of the stated variances: about 1 where sampling noise alone explains the
    scatter. ``weak``: n ≤ 4.
    """

    alpha: float
    alpha_low: float
    alpha_high: float
    alpha_se: float
    prefactor: float
    prefactor_low: float
    prefactor_high: float
    r_squared: float
    residual_se: float
    scale: float | None
    n: int
    df: int
    level: float
    weak: bool
    size_min: float
    size_max: float
    _results: Any = field(repr=False, compare=False)
    _centre: float = field(repr=False, compare=False)

    def __str__(self) -> str:
        interval = (
            f"α = {self.alpha:.4f}, {100 * self.level:.4g}% interval {self.alpha_low:.4f} to {self.alpha_high:.4f}"
        )
        rises = direction(self.alpha, self.alpha_low, self.alpha_high)
        return f"{formula(self.prefactor, self.alpha)}, {interval}{rises}; {self.n} points"

    @property
    def slope(self) -> float:
        """Return d ln y / d ln S, as the paper's Table 1 prints it."""
        return -self.alpha

    def predict(self, size: npt.ArrayLike) -> pd.DataFrame:
        """Evaluate the law at each of ``size`` (shape (m,)): a table of m rows.

        Columns ``size``, ``value``; ``mean_low``, ``mean_high`` (confidence band of the line) and ``low``,
        ``high`` (prediction interval of one new measurement). After a weighted fit, a new measurement is
        taken to be as noisy as the fitted ones are on average (the mean of their variances of ln y). Raises
        ParameterError for a size that is not positive and finite.
        """
        sizes = check_sizes(size)
        noise = float(np.mean(1 / self._results.model.weights)) if self.scale is not None else 1.0
        exog = np.vander(np.log(sizes) - self._centre, 2, increasing=True)
        prediction = self._results.get_prediction(exog, weights=1 / noise)
        line, new = (prediction.conf_int(obs=obs, alpha=1 - self.level) for obs in (False, True))
        columns = np.column_stack([prediction.predicted_mean, line, new])
        law = pd.DataFrame(np.exp(columns), columns=["value", "mean_low", "mean_high", "low", "high"])
        law.insert(0, "size", sizes)
        return law

    def as_dict(self) -> dict[str, float | int | bool | None]:
        """Return the public fields by name."""
        return public(self)


def fit_power_law(
    size: npt.ArrayLike, value: npt.ArrayLike, *, variance: npt.ArrayLike | None = None, level: float = 0.95
) -> PowerLawFit:
    """Fit ln y = ln A − α ln S + ε by least squares, with Student-t intervals of n − 2 degrees of freedom.

    ``size`` and ``value`` have shape (n,); sizes may repeat. Without ``variance`` the fit is ordinary least squares,
    the paper's. ``variance`` (shape (n,), in units of y²), each value's own sampling variance, weights it by
    y²/variance; the estimated ``scale`` absorbs what the known variances miss.

    Raises FitError for fewer than three different sizes, lengths that differ, a size, value or variance that is not
    positive and finite, or values that are all equal; ParameterError for a bad ``level``.
    """
    check_level(level)
    sizes, values = check_points(size, value)
    log_size, log_value = np.log(sizes), np.log(values)
    # Centred, so that the coefficients are nearly uncorrelated, and the units of S drop out to rounding.
    centre = float(log_size.mean())
    exog = np.vander(log_size - centre, 2, increasing=True)
    if variance is None:
        results = OLS(log_value, exog).fit()
    else:
        variances = as_positive(variance, "variance")
        if variances.size != values.size:
            raise FitError(f"{values.size} values but {variances.size} variances", "variance")
        results = WLS(log_value, exog, weights=values**2 / variances).fit()
    slope_low, slope_high = results.conf_int(1 - level)[1]
    origin = results.get_prediction(np.array([[1.0, -centre]]))
    prefactor_low, prefactor_high = np.exp(origin.conf_int(alpha=1 - level)[0])
    n, df = sizes.size, int(results.df_resid)
    return PowerLawFit(
        alpha=-float(results.params[1]),
        alpha_low=-float(slope_high),
        alpha_high=-float(slope_low),
        alpha_se=float(results.bse[1]),
        prefactor=float(np.exp(origin.predicted_mean[0])),
        prefactor_low=float(prefactor_low),
        prefactor_high=float(prefactor_high),
        r_squared=float(results.rsquared),
        residual_se=float(np.sqrt(np.sum(results.resid**2) / df)),
        scale=None if variance is None else float(results.scale),
        n=n,
        df=df,
        level=level,
        weak=n <= WEAK,
        size_min=float(sizes.min()),
        size_max=float(sizes.max()),
        _results=results,
        _centre=centre,
    )


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
