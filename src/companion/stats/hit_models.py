"""Laws of hits along a document: closed forms of −ln p(n), and fits by minimum distance."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit

from rbp.arrays import Reals
from rbp.errors import DataError, FitError, ParameterError
from rbp.laws.newton import least_squares


def markov(n: npt.ArrayLike, hit: float, stay: float) -> Reals:
    """Compute −ln p(n) of a two-state chain of hits and misses.

    The first token hits with probability `hit`, each next one, after hits only, with `stay`.
    """
    return np.asarray(-np.log(hit) - (np.asarray(n) - 1) * np.log(stay))


def beta_binomial(n: npt.ArrayLike, hit: float, correlation: float) -> Reals:
    """Compute −ln p(n) where each window has one random rate of hits throughout.

    `correlation`: 0 (independence) to 1 (p = π).
    """
    lengths = np.asarray(n, dtype=int)
    i, independence = np.arange(1, lengths.max()), 1 - correlation
    # the probability that a context with i hits goes on with another, i = 0 … N − 1
    steps = -np.log(np.append(hit, (hit * independence + i * correlation) / (independence + i * correlation)))
    return np.asarray(np.cumsum(steps)[lengths - 1])


Law = Callable[..., Reals]
LAWS: dict[str, Law] = {
    "independence": lambda n, hit: markov(n, hit, hit),
    "markov": markov,
    "beta-binomial": beta_binomial,
}
PARAMETERS = {
    "independence": ("hit",),
    "markov": ("hit", "stay"),
    "beta-binomial": ("hit", "correlation"),
}


@dataclass(frozen=True)
class SequenceFit:
    """A law of `LAWS` with its parameters, and the root mean square distance of ln(−ln p) at the lengths fitted.

    edge: "independence" where that comes as near as any member of the beta-binomial; else "".
    """

    law: str
    parameters: dict[str, float]
    distance: float
    edge: str = ""

    def neg_log(self, n: npt.ArrayLike) -> Reals:
        """Compute −ln p(n), shape of n."""
        return LAWS[self.law](n, **self.parameters)


def fit_distance(n: npt.ArrayLike, neg_log: npt.ArrayLike, law: str) -> SequenceFit:
    """Fit a law to −ln p(n) at the lengths n (n[0] = 1) by least squares of ln(−ln p): no likelihood is claimed.

    n, neg_log: shape (m,), m at least the number of the law's parameters. Raises ParameterError for an unknown law,
    DataError for values that are not positive and finite, or too few.
    """
    if law not in LAWS:
        raise ParameterError(f"there is no law {law!r}", "law", f"There is: {', '.join(LAWS)}.")
    lengths, y = np.asarray(n, dtype=int), np.asarray(neg_log, dtype=float)
    if y.size < len(PARAMETERS[law]) or lengths[0] != 1 or not (np.isfinite(y) & (y > 0)).all():
        what = f"the law {law} needs {len(PARAMETERS[law])} lengths, from 1 on, with 0 < p < 1"
        raise DataError(what, "n, neg_log", "Give shorter lengths, or leave out those without success.")
    target = np.log(y)

    def fit(values: Sequence[float], edge: str = "") -> SequenceFit:
        away = np.log(LAWS[law](lengths, *values)) - target
        parameters = dict(zip(PARAMETERS[law], map(float, values), strict=True))
        return SequenceFit(law, parameters, float(np.sqrt((away**2).mean())), edge)

    fits = []
    if law == "beta-binomial":
        (hit,) = fit_distance(n, y, "independence").parameters.values()
        fits.append(fit((hit, 0.0), "independence"))
    for start in _starts(law, lengths, y):
        with contextlib.suppress(FitError):  # it runs to an edge
            inside = least_squares(lambda free: np.log(LAWS[law](lengths, *_bound(law, free))) - target, start)
            fits.append(fit(_bound(law, inside)))
    least = min(each.distance for each in fits)
    return next(each for each in fits if each.distance <= least * (1 + _NEARER) + 1e-12)


_NEARER = 1e-9  # relatively: an edge that is as near as the best inside, but for rounding, is the fit


def _bound(law: str, free: Any) -> Any:
    """Convert numbers without bounds to parameters of a law: ln(−ln p) of the chain's, else logits."""
    return np.exp(-np.exp(free)) if law in ("independence", "markov") else 1 / (1 + np.exp(-free))


def _starts(law: str, n: npt.NDArray[np.int_], y: Reals) -> list[Reals]:
    first = np.log(y[0])
    if law == "independence":
        return [np.array([first])]
    if law == "markov":
        step = (y[-1] - y[0]) / (n[-1] - 1)
        return [np.array([first, np.log(max(step, 1e-9))])]
    return [np.array([logit(np.exp(-y[0])), logit(correlation)]) for correlation in (0.05, 0.2, 0.5, 0.8)]
