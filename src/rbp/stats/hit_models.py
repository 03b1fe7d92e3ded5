"""Laws of hits along a document: closed forms of −ln p(n), fits by minimum distance, and the likelihood of documents
that a law was not fitted to.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import logit

from rbp.core.arrays import Integers, Reals
from rbp.core.errors import DataError, FitError, ParameterError
from rbp.stats.newton import least_squares, minimum
from rbp.stats.resampling import interval, without_each
from rbp.stats.windows import runs


def markov(n: npt.ArrayLike, hit: float, stay: float) -> Reals:
    """−ln p(n) of a two-state chain of hits and misses: the first token hits with probability `hit`, each next one,
    after hits only, with `stay`."""
    return np.asarray(-np.log(hit) - (np.asarray(n) - 1) * np.log(stay))


def beta_binomial(n: npt.ArrayLike, hit: float, correlation: float) -> Reals:
    """−ln p(n) where each window draws a rate of its own and keeps it. `correlation`: 0 (independence) to 1 (p = π)."""
    lengths = np.asarray(n, dtype=int)
    return np.asarray(np.cumsum(_steps(int(lengths.max()), hit, correlation))[lengths - 1])


def _steps(longest: int, hit: Any, correlation: Any) -> Any:
    """−ln of the probability that a context with i hits goes on with another, i = 0 … longest − 1."""
    i = np.arange(1, longest)
    one = 1 - correlation
    return -np.log(np.append(hit, (hit * one + i * correlation) / (one + i * correlation)))


def renewed(n: npt.ArrayLike, hit: float, correlation: float, renewal: float) -> Reals:
    """−ln p(n) where the beta-binomial's rate is drawn anew before each token with probability `renewal`.

    By the length j of the last stretch of one rate, with m(j) the beta-binomial's p(j):
    p(n) = (1 − r)^(n−1)·m(n) + Σ over j < n of r·(1 − r)^(j−1)·m(j)·p(n − j).
    r = 0 is the beta-binomial, r = 1 independence; a stretch lasts 1/r tokens in the mean.
    """
    lengths = np.asarray(n, dtype=int)
    longest = int(lengths.max())
    kept = np.exp(-np.cumsum(_steps(longest, hit, correlation))) * (1 - renewal) ** np.arange(longest)
    p = np.ones(longest + 1, dtype=kept.dtype)
    for i in range(1, longest + 1):
        p[i] = kept[i - 1] + renewal * (kept[: i - 1] @ p[i - 1 : 0 : -1])
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(p[lengths]))


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
    "beta-binomial": ("hit", "correlation"),
    "renewed": ("hit", "correlation", "renewal"),
}


@dataclass(frozen=True)
class SequenceFit:
    """A law of `LAWS` with its parameters, and the root mean square distance of ln(−ln p) at the lengths fitted.

    edge: the simpler law that it has become, where that comes as near as any member of its own; else "".
    """

    law: str
    parameters: dict[str, float]
    distance: float
    edge: str = ""

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

    def fit(values: Sequence[float], edge: str = "") -> SequenceFit:
        away = np.log(LAWS[law](lengths, *values)) - target
        parameters = dict(zip(PARAMETERS[law], map(float, values), strict=True))
        return SequenceFit(law, parameters, float(np.sqrt((away**2).mean())), edge)

    found = [fit(values, edge) for edge, values in _edges(law, lengths, y)]
    for start in _starts(law, lengths, y):
        with contextlib.suppress(FitError):  # it runs to an edge
            inside = least_squares(lambda free: np.log(LAWS[law](lengths, *_bound(law, free))) - target, start)
            found.append(fit(_bound(law, inside)))
    least = min(each.distance for each in found)
    return next(each for each in found if each.distance <= least * (1 + _NEARER) + 1e-12)


_NEARER = 1e-9  # relatively: an edge that is as near as the best inside, but for rounding, is the fit


def _edges(law: str, n: npt.NDArray[np.int_], y: Reals) -> Iterator[tuple[str, Sequence[float]]]:
    """The best members of the simpler laws within `law`, where they are at the ends of its parameters."""
    if law == "beta-binomial":
        (hit,) = fit_distance(n, y, "independence").parameters.values()
        yield "independence", (hit, 0.0)
    if law == "renewed":
        yield "beta-binomial", (*fit_distance(n, y, "beta-binomial").parameters.values(), 0.0)
        hit, stay = fit_distance(n, y, "markov").parameters.values()
        if stay > hit:  # contexts of hits alone and of misses alone
            yield "markov", (hit, 1.0, (1 - stay) / (1 - hit))


def _bound(law: str, free: Any) -> Any:
    """Parameters of a law from numbers without bounds: ln(−ln p) of the chain's, else logits."""
    return np.exp(-np.exp(free)) if law in ("independence", "markov") else 1 / (1 + np.exp(-free))


def _starts(law: str, n: npt.NDArray[np.int_], y: Reals) -> list[Reals]:
    first = np.log(y[0])
    if law == "independence":
        return [np.array([first])]
    if law == "markov":
        step = (y[-1] - y[0]) / (n[-1] - 1)
        return [np.array([first, np.log(max(step, 1e-9))])]
    pairs = [np.array([logit(np.exp(-y[0])), logit(correlation)]) for correlation in (0.05, 0.2, 0.5, 0.8)]
    if law == "beta-binomial":
        return pairs
    return [np.append(pair, logit(renewal)) for pair in pairs for renewal in (0.03, 0.3)]


MODELS = ("independence", "markov", "documents", "both")


@dataclass(frozen=True)
class Documents:
    """What the laws need of each document, shape (documents, 2) each: [hits, misses] of the tokens that begin a
    stretch, of those after a hit, and of those after a miss."""

    first: Integers
    after_hit: Integers
    after_miss: Integers

    def __getitem__(self, chosen: npt.NDArray[np.bool_]) -> "Documents":
        return Documents(self.first[chosen], self.after_hit[chosen], self.after_miss[chosen])

    @property
    def all(self) -> Integers:
        """[hits, misses] of all tokens."""
        return self.first + self.after_hit + self.after_miss


def summed(hit: npt.ArrayLike, documents: npt.ArrayLike, positions: npt.ArrayLike) -> Documents:
    """Count what `Documents` holds from hits, shape (T,), ordered by document and position."""
    good = np.asarray(hit, dtype=bool)
    _, document = np.unique(np.asarray(documents), return_inverse=True)
    begins = runs(np.ones_like(good), documents, positions) == 1
    before = np.append(False, good[:-1])
    count = int(document.max()) + 1

    def of(chosen: npt.NDArray[np.bool_]) -> Integers:
        pairs = [np.bincount(document[chosen & side], minlength=count) for side in (good, ~good)]
        return np.column_stack(pairs).astype(np.int64)

    return Documents(of(begins), of(~begins & before), of(~begins & ~before))


def log_likelihood(train: Documents, test: Documents, model: str) -> Reals:
    """ln of the probability of each test document's hits, shape (documents,), by a law of MODELS fitted to `train`."""
    if model == "independence":
        return _one_rate(train.all, test.all)
    if model == "markov":
        first = _one_rate(train.all, test.first)
        return first + _one_rate(train.after_hit, test.after_hit) + _one_rate(train.after_miss, test.after_miss)
    if model == "documents":
        return _beta(train.all, test.all)
    first = _one_rate(train.all, test.first)
    return first + _beta(train.after_hit, test.after_hit) + _beta(train.after_miss, test.after_miss)


def _rate(counts: Integers) -> float:
    """The share of hits; Jeffreys' half keeps what was never seen possible."""
    hits, misses = counts.sum(axis=0) + 0.5
    return float(hits / (hits + misses))


def _one_rate(train: Integers, test: Integers) -> Reals:
    rate = _rate(train)
    likelihood: Reals = test @ np.log(np.array([rate, 1 - rate]))
    return likelihood


def _beta(train: Integers, test: Integers) -> Reals:
    rate, spread = fit_beta(train)
    if not spread:
        return _one_rate(train, test)
    i = np.arange(test.sum(axis=1).max() + 1)
    # ln of the product of the first n factors: closed, and without the cancellation of ln Γ
    hit, miss, any_ = (np.append(0, np.log(each + i * spread).cumsum()) for each in (rate, 1 - rate, 1.0))
    likelihood: Reals = hit[test[:, 0]] + miss[test[:, 1]] - any_[test.sum(axis=1)]
    return likelihood


def fit_beta(counts: Integers) -> tuple[float, float]:
    """The beta distribution of rates by maximum likelihood of the sequences [hits, misses], shape (m, 2).

    Returns its mean π and spread ψ = 1/(a + b): the next token of a document with h hits among n tokens is a hit with
    probability (π + hψ)/(1 + nψ). ψ is 0 where the likelihood falls with it from there on: rates that do not vary more
    than chance makes them. Raises FitError where no document has both hits and misses: then ψ has no upper bound.
    """
    if not (counts.min(axis=1) > 0).any():
        raise FitError("no document has both hits and misses", "k", "Rank longer documents, or choose another k.")
    hits, misses = counts.T
    lengths = hits + misses
    rate = _rate(counts)
    pairs = [float((n * (n - 1.0)).sum()) / 2 for n in (hits, misses, lengths)]
    if pairs[0] / rate + pairs[1] / (1 - rate) <= pairs[2]:  # the score at ψ = 0
        return rate, 0.0
    # Documents that have more than i hits (misses, tokens): the factors π + iψ (1 − π + iψ, 1 + iψ) of all of them.
    i = np.arange(lengths.max())
    more = [len(counts) - np.bincount(n).cumsum()[:-1] for n in (hits, misses, lengths)]

    def loss(free: Reals) -> tuple[float, Reals, Reals]:
        mean, spread = 1 / (1 + np.exp(-free[0])), np.exp(free[1])
        slope, reach = mean * (1 - mean), i * spread
        value, gradient, hessian = 0.0, np.zeros(2), np.zeros((2, 2))
        for weight, base, sign in zip((-more[0], -more[1], more[2]), (mean, 1 - mean, 1.0), (1, -1, 0), strict=True):
            far, step = reach[: weight.size], sign * slope
            factor = base + far
            once = weight / factor
            twice = once / factor
            total, mixed = np.array([step * once.sum(), once @ far]), step * (twice @ far)
            value += float(weight @ np.log(factor))
            gradient += total
            curved = np.array([[step**2 * twice.sum(), mixed], [mixed, (twice * far) @ far]])
            hessian += np.diag(total * [1 - 2 * mean, 1]) - curved
        return value, gradient, hessian

    alike = (pairs[0] / pairs[2] - rate**2) / (rate * (1 - rate))  # the correlation within a document, by moments
    mean, spread = minimum(loss, np.array([logit(rate), np.log(max(alike, 1e-4))]))
    return float(1 / (1 + np.exp(-mean))), float(np.exp(spread))


FOLDS = 5


def held_out(documents: Documents, *, level: float = 0.95) -> pd.DataFrame:
    """How much better than independence each law foretells documents that it was not fitted to.

    Documents are dealt into FOLDS in turn; each is judged by the fit to the others. Columns model, gain (nats per
    token: the mean log-likelihood less that of independence), low, high (documents being the
    units), independence (its own mean log-likelihood per token). Raises DataError for fewer than two documents a fold.
    """
    count = len(documents.all)
    if count < 2 * FOLDS:
        raise DataError(f"{count} documents are too few to hold some out", "documents", "Rank more documents.")
    fold = np.arange(count) % FOLDS
    values = {model: np.empty(count) for model in MODELS}
    for each in range(FOLDS):
        test = fold == each
        for model in MODELS:
            values[model][test] = log_likelihood(documents[~test], documents[test], model)
    tokens = documents.all.sum(axis=1)
    base = values["independence"]
    rows = []
    for model in MODELS[1:]:
        gained, of = without_each(np.column_stack([values[model] - base, tokens])).T
        rows.append((model, *interval(gained / of, level=level), float(base.sum() / tokens.sum())))
    return pd.DataFrame(rows, columns=["model", "gain", "low", "high", "independence"])
