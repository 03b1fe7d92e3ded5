"""One distribution of difficulty and one response curve for RBP_k at every k; and what one curve in ln k makes of α.

Every token has a difficulty, the same for all models, and normal with variance 1. A model has an ability θ, and k
guesses add h(k). In `normal`, the response to θ + h(k) less the difficulty is a normal distribution too, whose width
the scale of θ and h takes up:

    RBP_k = Φ(θ + h(k)).

In `tries`, all tokens are alike, and k guesses are worth κ(k) = e^h(k) independent tries, each of the chance RBP_1:

    1 − RBP_k = (1 − RBP_1)^κ(k),  RBP_1 = 1 − exp(−e^θ).

Either way θ = ability − slope·CE is told by the cross-entropy, and h(k) = gain·((1 + ln k)^bend − 1)/bend: four
numbers. `product` and `bent` are naive curves of as many, straight in logarithms but for one term.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtri

from rbp.arrays import Reals
from rbp.errors import DataError, ParameterError
from rbp.laws.newton import least_squares


def guesses(k: Any, gain: Any, bend: Any) -> Any:
    """h(k), what k guesses add to an ability: 0 at k = 1; in proportion to ln k where bend is 1."""
    return gain * ((1 + np.log(k)) ** bend - 1) / bend


def normal(k: Any, entropy: Any, ability: Any, slope: Any, gain: Any, bend: Any) -> Any:
    """ln(−ln RBP_k) where difficulties are normal."""
    return np.log(-log_ndtr(ability - slope * entropy + guesses(k, gain, bend)))


def tries(k: Any, entropy: Any, ability: Any, slope: Any, gain: Any, bend: Any) -> Any:
    """ln(−ln RBP_k) where k guesses are κ(k) independent tries."""
    return np.log(-np.log(-np.expm1(-np.exp(ability - slope * entropy + guesses(k, gain, bend)))))


def product(k: Any, entropy: Any, level: Any, slope: Any, fall: Any, mixed: Any) -> Any:
    """ln(−ln RBP_k) as a line in ln CE and ln k, and their product."""
    x, u = np.log(entropy), np.log(k)
    return level + slope * x - fall * u + mixed * x * u


def bent(k: Any, entropy: Any, level: Any, slope: Any, fall: Any, bow: Any) -> Any:
    """ln(−ln RBP_k) as a line in ln CE and ln k, and (ln k)²."""
    u = np.log(k)
    return level + slope * np.log(entropy) - fall * u + bow * u**2


#: by name: the curve, and where its fit begins
CURVES: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "normal": (normal, (0.9, 0.4, 0.3, 1.0)),
    "tries": (tries, (0.5, 0.3, 0.5, 0.8)),
    "product": (product, (-1.0, 1.0, 0.3, 0.0)),
    "bent": (bent, (-1.0, 1.0, 0.3, 0.0)),
}
THEORIES, NAIVE = ("normal", "tries"), ("product", "bent")


@dataclass(frozen=True)
class CurveFit:
    """One of CURVES with its four parameters; rms: of the residuals of ln(−ln RBP_k)."""

    name: str
    parameters: tuple[float, ...]
    rms: float
    points: int

    def log_neg_log(self, k: npt.ArrayLike, entropy: npt.ArrayLike) -> Reals:
        """ln(−ln RBP_k) at thresholds and cross-entropies (nats), of one shape."""
        curve, _ = CURVES[self.name]
        found: Reals = curve(np.asarray(k, float), np.asarray(entropy, float), *self.parameters)
        return found

    def more_guesses(self, rbp: npt.ArrayLike, k: int) -> Reals:
        """RBP_k of what has RBP_1 = rbp, 0 < rbp < 1, whatever its ability comes from. For THEORIES alone."""
        share, added = np.asarray(rbp, float), guesses(k, *self.parameters[2:])
        if self.name == "normal":
            found: Reals = np.exp(log_ndtr(ndtri(share) + added))
        elif self.name == "tries":
            found = -np.expm1(np.exp(added) * np.log1p(-share))
        else:
            raise ParameterError(f"the curve {self.name} has no ability", "name", f"Give {' or '.join(THEORIES)}.")
        return found


def fit_curve(name: str, k: npt.ArrayLike, entropy: npt.ArrayLike, value: npt.ArrayLike) -> CurveFit:
    """Fit one of CURVES to −ln RBP_k by least squares of ln(−ln RBP_k).

    k, entropy (CE, nats), value: shape (n,). Raises ParameterError for an unknown name, DataError for values that are
    not positive and finite or fewer than the parameters, FitError where the points do not determine them.
    """
    if name not in CURVES:
        raise ParameterError(f"there is no curve {name!r}", "name", f"There is: {', '.join(CURVES)}.")
    curve, start = CURVES[name]
    at, nats, y = (np.asarray(each, dtype=np.float64) for each in (k, entropy, value))
    known = np.isfinite(y) & (y > 0) & np.isfinite(nats) & (nats > 0)
    if y.size <= len(start) or not known.all():
        what = f"the curve {name} needs more than {len(start)} points, each with 0 < RBP_k < 1 and a cross-entropy"
        raise DataError(what, "value", "Give a source that has ranks and cross-entropies at several k.")
    target = np.log(y)
    found = least_squares(lambda free: curve(at, nats, *free) - target, np.array(start))
    away = np.real(curve(at, nats, *found)) - target
    return CurveFit(name, tuple(map(float, found)), float(np.sqrt((away**2).mean())), y.size)


def local_exponent(k: npt.ArrayLike, value: npt.ArrayLike, at: int) -> float:
    """−d ln y/d ln k of one curve about k = `at`, from its neighbours: a factor of 1.5 to 5 away, or `at` itself.

    k, value: shape (n,); at k = 1 it is the slope from 1 to the next. NaN where there is no neighbour.
    """
    place, y = np.asarray(k, dtype=np.float64), np.asarray(value, dtype=np.float64)
    below, above = place[place <= at / 1.5], place[place >= 1.5 * at]
    low = below.max() if below.size and below.max() >= at / 5 else float(at)
    high = above.min() if above.size and above.min() <= 5 * at else float(at)
    if low == high or not {low, high} <= set(place.tolist()):
        return float("nan")
    ends = [float(y[place == end][0]) for end in (low, high)]
    return float(-np.log(ends[1] / ends[0]) / np.log(high / low))
