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
from scipy.optimize import minimize
from scipy.special import betaln, digamma

from rbp.errors import DataError
from rbp.metric import Integers, Reals, runs

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


def _one_rate(train: Integers, test: Integers) -> Reals:
    total = train.sum(axis=0) + 0.5  # Jeffreys' half keeps what was never seen possible
    likelihood: Reals = test @ np.log(total / total.sum())
    return likelihood


def _beta(train: Integers, test: Integers) -> Reals:
    a, b = fit_beta(train)
    likelihood: Reals = betaln(a + test[:, 0], b + test[:, 1]) - betaln(a, b)
    return likelihood


def fit_beta(counts: Integers) -> tuple[float, float]:
    """a, b of the beta distribution of rates by maximum likelihood of the sequences [hits, misses], shape (m, 2).

    Rates that do not vary at all give very large a and b: the sum is held below 1e8.
    """
    # Short documents are often alike: each pair of counts is taken once, with its number of documents.
    _, first, number = np.unique(
        counts[:, 0] * (counts.max() + 1) + counts[:, 1], return_index=True, return_counts=True
    )
    hits, misses = counts[first].astype(float).T
    total = counts.sum(axis=0) + 0.5
    rate = total[0] / total.sum()

    def loss(free: Reals) -> tuple[float, Reals]:
        a, b = np.exp(free)
        value = float(number @ (betaln(a + hits, b + misses) - betaln(a, b)))
        shared = number @ (digamma(a + hits + b + misses) - digamma(a + b))
        by_a = number @ (digamma(a + hits) - digamma(a)) - shared
        by_b = number @ (digamma(b + misses) - digamma(b)) - shared
        return -value, -np.array([a * by_a, b * by_b])

    starts = [np.log([size * rate, size * (1 - rate)]) for size in (3.0, 100.0)]
    bounds = [(-12.0, 17.7)] * 2
    found = [minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds) for start in starts]
    best = min(found, key=lambda each: float(each.fun))
    a, b = np.exp(best.x)
    return float(a), float(b)


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
