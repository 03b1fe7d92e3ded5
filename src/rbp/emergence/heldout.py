"""Laws of hits along a document, fitted to some documents by maximum likelihood and judged on others.

independence   every token hits with one rate
markov         a hit is followed by a hit with one rate, a miss with another
documents      beta-binomial: each document has a rate of its own, drawn from a beta distribution
both           each document has its own two rates, after hits and after misses, each from a beta distribution

All have closed forms: a document's hits and misses (after hits, after misses) are all that is needed of it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import logit

from rbp.errors import DataError, FitError
from rbp.metric import Integers, Reals, runs
from rbp.newton import minimum

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
    more = [len(counts) - np.bincount(n, minlength=i.size).cumsum()[: i.size] for n in (hits, misses, lengths)]

    def loss(free: Reals) -> tuple[float, Reals, Reals]:
        mean, spread = 1 / (1 + np.exp(-free[0])), np.exp(free[1])
        slope = mean * (1 - mean)
        value, gradient, hessian = 0.0, np.zeros(2), np.zeros((2, 2))
        for weight, base, sign in zip((-more[0], -more[1], more[2]), (mean, 1 - mean, 1.0), (1, -1, 0), strict=True):
            factor = base + i * spread
            by = np.stack([np.full(i.size, sign * slope), i * spread]) / factor
            curve = np.stack([by[0] * (1 - 2 * mean), by[1]])
            value += float(weight @ np.log(factor))
            gradient += by @ weight
            hessian += np.diag(curve @ weight) - (by * weight) @ by.T
        return value, gradient, hessian

    alike = (pairs[0] / pairs[2] - rate**2) / (rate * (1 - rate))  # the correlation within a document, by moments
    mean, spread = minimum(loss, np.array([logit(rate), np.log(max(alike, 1e-4))]))
    return float(1 / (1 + np.exp(-mean))), float(np.exp(spread))


def held_out(documents: Documents, *, folds: int = 5, z: float = 1.96) -> pd.DataFrame:
    """How much better than independence each law foretells documents that it was not fitted to.

    Documents are dealt into `folds` in turn; each is judged by the fit to the others. Columns model, gain (nats per
    token: the mean log-likelihood less that of independence), low, high (± z standard errors, documents being the
    units), independence (its own mean log-likelihood per token). Raises DataError for fewer than two documents a fold.
    """
    count = len(documents.all)
    if count < 2 * folds:
        raise DataError(f"{count} documents are too few to hold some out", "documents", "Rank more documents.")
    fold = np.arange(count) % folds
    values = {model: np.empty(count) for model in MODELS}
    for each in range(folds):
        test = fold == each
        for model in MODELS:
            values[model][test] = log_likelihood(documents[~test], documents[test], model)
    tokens = documents.all.sum(axis=1)
    base = values["independence"]
    rows = []
    for model in MODELS[1:]:
        gain = float((values[model] - base).sum() / tokens.sum())
        off = values[model] - base - gain * tokens
        error = float(np.sqrt(count / (count - 1) * (off @ off)) / tokens.sum())
        rows.append((model, gain, gain - z * error, gain + z * error, float(base.sum() / tokens.sum())))
    return pd.DataFrame(rows, columns=["model", "gain", "low", "high", "independence"])
