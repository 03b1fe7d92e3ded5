"""Laws of success on n tokens in a row, in closed form: −ln p(n) for each, and fits by minimum distance.

independence   every token alike:                        p(n) = π^n
markov         hits follow hits more often than misses:  p(n) = π·s^(n−1)
beta-binomial  contexts differ, each for ever:            p(n) = B(a + n, b)/B(a, b)
renewed        contexts differ, each for a while:        p by recursion, see `_renewed`
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares
from scipy.special import betaln, expit, logit

from rbp.errors import DataError, ParameterError
from rbp.metric import Reals


def markov(n: npt.ArrayLike, hit: float, stay: float) -> Reals:
    """−ln p(n) of a two-state chain of hits and misses: the first token hits with probability `hit`, each next one,
    after hits only, with `stay`."""
    return np.asarray(-np.log(hit) - (np.asarray(n, dtype=float) - 1) * np.log(stay), dtype=float)


def beta_binomial(n: npt.ArrayLike, a: float, b: float) -> Reals:
    """−ln p(n) where each window draws a hit rate from Beta(a, b) and keeps it: −ln of B(a + n, b)/B(a, b)."""
    return np.asarray(betaln(a, b) - betaln(a + np.asarray(n, dtype=float), b), dtype=float)


def renewed(n: npt.ArrayLike, a: float, b: float, renewal: float) -> Reals:
    """−ln p(n) where the hit rate, Beta(a, b), is drawn anew before each token with probability `renewal`.

    By the length j of the last stretch of one rate, with m(j) the beta-binomial's p(j):
    p(n) = (1 − r)^(n−1)·m(n) + Σ over j < n of r·(1 − r)^(j−1)·m(j)·p(n − j).
    r = 0 is the beta-binomial, r = 1 independence; a stretch lasts 1/r tokens in the mean.
    """
    lengths = np.asarray(n, dtype=int)
    longest = int(lengths.max())
    steps = np.arange(1, longest + 1)
    kept = np.exp(-beta_binomial(steps, a, b)) * (1 - renewal) ** (steps - 1)
    p = np.ones(longest + 1)
    for i in range(1, longest + 1):
        p[i] = kept[i - 1] + renewal * (kept[: i - 1] @ p[i - 1 : 0 : -1])
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(p[lengths]), dtype=float)


Law = Callable[..., Reals]
LAWS: dict[str, Law] = {
    "independence": lambda n, hit: markov(n, hit, hit),
    "markov": markov,
    "beta-binomial": beta_binomial,
    "renewed": renewed,
}
PARAMETERS = {
    "independence": ("hit",),
    "markov": ("hit", "stay"),
    "beta-binomial": ("a", "b"),
    "renewed": ("a", "b", "renewal"),
}


@dataclass(frozen=True)
class SequenceFit:
    """A law of `LAWS` with its parameters, and the root mean square distance of ln(−ln p) at the lengths fitted."""

    law: str
    parameters: dict[str, float]
    distance: float

    def neg_log(self, n: npt.ArrayLike) -> Reals:
        """−ln p(n), shape of n."""
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

    def away(free: Reals) -> Reals:
        with np.errstate(all="ignore"):
            distance = np.log(LAWS[law](lengths, **_bound(law, free))) - target
        finite: Reals = np.nan_to_num(distance, nan=1e3, posinf=1e3, neginf=-1e3)
        return finite

    found = [least_squares(away, start, method="lm", x_scale="jac") for start in _starts(law, lengths, y)]
    best = min(found, key=lambda each: float(each.cost))
    return SequenceFit(law, _bound(law, best.x), float(np.sqrt(2 * best.cost / y.size)))


_LARGEST = 25.0  # of a parameter's logarithm: beyond it a law is another, simpler one


def _bound(law: str, free: Reals) -> dict[str, float]:
    """Parameters of a law from numbers without bounds; −ln of a probability, and a, b, are positive."""
    free = np.clip(free, -_LARGEST, _LARGEST)
    if law in ("independence", "markov"):
        values = np.exp(-np.exp(free))
    else:
        values = np.append(np.exp(free[:2]), expit(free[2:]))
    return dict(zip(PARAMETERS[law], map(float, values), strict=True))


def _starts(law: str, n: npt.NDArray[np.int_], y: Reals) -> Sequence[Reals]:
    first = np.log(y[0])
    if law == "independence":
        return [np.array([first])]
    if law == "markov":
        step = (y[-1] - y[0]) / (n[-1] - 1)
        return [np.array([first, np.log(max(step, 1e-9))])]
    rate = np.exp(-y[0])
    pairs = [np.log([total * rate, total * (1 - rate)]) for total in (0.3, 1.0, 4.0, 20.0)]
    if law == "beta-binomial":
        return pairs
    return [np.append(pair, logit(renewal)) for pair in pairs for renewal in (0.03, 0.3)]
