"""From the scores of a model to RBP_k: ranks, tie rules, cross-entropy, and how sure a share is.

A language model gives each of the V tokens of its vocabulary a score. The rank R of the ground-truth token is
its place in the order of the scores, 1 being the best (equation 3 of the paper):

    R = number of tokens v with score(v) ≥ score(truth), the truth itself included.

RBP_k is the share of tokens of a corpus with R ≤ k (equation 4): the distribution function of the rank.
Cross-entropy is the mean of −ln p(truth) (equation 2). The first looks at the order alone, the second at one
probability alone; neither says what the other is.
"""

from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from statsmodels.stats.proportion import proportion_confint

from rbp.errors import DataError, ParameterError

TieRule = Literal["paper", "strict", "expected"]
Integers: TypeAlias = npt.NDArray[np.int64]
Reals: TypeAlias = npt.NDArray[np.float64]


def greater_equal(scores: npt.ArrayLike, target: npt.ArrayLike) -> tuple[Integers, Integers]:
    """How many tokens score strictly higher than the truth, and how many score the same, itself included.

    scores: shape (…, V), any real unit (logits or probabilities); target: shape (…), the index of the truth.
    Returns (greater, equal), each of shape (…), with 0 ≤ greater, 1 ≤ equal and greater + equal ≤ V.
    Raises DataError for NaN scores, and for a target outside 0 … V − 1 or of another shape.
    """
    score, index = np.asarray(scores), np.asarray(target)
    if not np.issubdtype(index.dtype, np.integer) or score.ndim == 0 or score.shape[:-1] != index.shape:
        what = f"scores of shape {score.shape} need whole-number targets of shape {score.shape[:-1]}"
        raise DataError(what, f"target: {index.dtype}, shape {index.shape}", "Give one target per position.")
    if np.isnan(score).any():
        raise DataError("a score is NaN", "scores", "NaN has no place in an order: find where it comes from.")
    if index.size and not (index.min() >= 0 and index.max() < score.shape[-1]):
        raise DataError(f"a target lies outside 0 … {score.shape[-1] - 1}", "target", "Check the tokenizer.")
    truth = np.take_along_axis(score, index[..., None], axis=-1)
    return (score > truth).sum(axis=-1, dtype=np.int64), (score == truth).sum(axis=-1, dtype=np.int64)


def rank(greater: npt.ArrayLike, equal: npt.ArrayLike, rule: TieRule = "paper") -> Integers | Reals:
    """The rank of the truth, in 1 … V, under one of three tie rules.

    "paper": greater + equal, the truth placed last among its equals (equation 3); "strict": greater + 1,
    placed first (what the authors' code counts); "expected": greater + (equal + 1)/2, the mean place if the
    equals are shuffled, which can be a half. Raises ParameterError for another rule, DataError for counts
    that are not whole or below 0 (greater) or 1 (equal).
    """
    above, same = _counts(greater, "greater", 0), _counts(equal, "equal", 1)
    if rule == "paper":
        return above + same
    if rule == "strict":
        return above + np.ones_like(same)
    if rule == "expected":
        return above + (same + 1) / 2
    raise ParameterError(f"unknown tie rule {rule!r}", "rule", f"There is: {', '.join(get_args(TieRule))}.")


def rbp(ranks: npt.ArrayLike, k: npt.ArrayLike) -> Any:
    """RBP_k, the share of `ranks` that are at most k (equation 4).

    A float for one k; an array of k's shape for several. Raises DataError for no ranks, NaN, or a rank below
    1; ParameterError for a k below 1.
    """
    ordered = np.sort(_ranks(ranks), axis=None)
    threshold = np.asarray(k, dtype=np.float64)
    if not (threshold >= 1).all():
        raise ParameterError(f"a threshold must be at least 1, not {k!r}", "k", "RBP_k counts the ranks 1 … k.")
    share = np.searchsorted(ordered, threshold, side="right") / ordered.size
    return float(share) if threshold.ndim == 0 else share


def cross_entropy(p_truth: npt.ArrayLike) -> float:
    """The mean of −ln p over the probabilities of the truth, in nats (equation 2); infinite if one is 0.

    Raises DataError for none, NaN, or a value outside 0 … 1.
    """
    p = np.asarray(p_truth, dtype=np.float64)
    if not p.size or not ((p >= 0) & (p <= 1)).all():
        raise DataError("probabilities must lie between 0 and 1, at least one of them", "p_truth", "Check them.")
    with np.errstate(divide="ignore"):
        return float(-np.log(p).mean()) + 0.0


def cross_entropy_of(nll: npt.ArrayLike) -> float:
    """The mean of −ln p(truth), given as such, in nats (equation 2); infinite if one is.

    Raises DataError for none, NaN, or a value below 0.
    """
    values = np.asarray(nll, dtype=np.float64)
    if not values.size or not (values >= 0).all():
        raise DataError("−ln p must be at least 0, and at least one of them", "nll", "Check them.")
    return float(values.mean())


def mean_reciprocal_rank(ranks: npt.ArrayLike) -> float:
    """The mean of 1/R over ranks R ≥ 1, between 0 and 1. Raises DataError as `rbp`."""
    return float(np.mean(1 / _ranks(ranks)))


def window_success(
    ranks: npt.ArrayLike, documents: npt.ArrayLike, positions: npt.ArrayLike, *, k: int, n: int
) -> tuple[int, int]:
    """How many windows of n successive tokens have every rank at most k, and how many windows there are.

    p_{N,k} of the paper (section 5.1) is the one by the other. Windows overlap, and each lies within a
    document, as the authors count: a document of L ranked tokens has max(0, L − n + 1). ranks, documents and
    positions: shape (T,), a row per token, ordered by document and position; a window does not run over a gap
    in the positions. Raises DataError as `rbp`, ParameterError for a k or an n below 1.
    """
    if k < 1 or n < 1:
        raise ParameterError(f"k and n must be at least 1, not {k} and {n}", "k, n", "Check them.")
    hit = _ranks(ranks) <= k
    successes = runs(hit, documents, positions) >= n
    return int(successes.sum()), int((runs(np.ones_like(hit), documents, positions) >= n).sum())


def runs(hit: npt.ArrayLike, documents: npt.ArrayLike, positions: npt.ArrayLike) -> Integers:
    """At each token, how many successive tokens of its document up to it are hits; 0 where it is none.

    All of shape (T,), a row per token, ordered by document and position. A window of n tokens that ends here
    succeeds where this is at least n.
    """
    good, document, position = np.asarray(hit, dtype=bool), np.asarray(documents), np.asarray(positions)
    index = np.arange(len(good))
    goes_on = np.zeros(len(good), dtype=bool)
    goes_on[1:] = (document[1:] == document[:-1]) & (position[1:] == position[:-1] + 1) & good[:-1]
    # where the run began: at the last token that did not go on; a miss begins its run just after itself
    begins = np.where(good, np.where(goes_on, 0, index), index + 1)
    return index + 1 - np.maximum.accumulate(begins)


def resampled_means(values: npt.ArrayLike, documents: npt.ArrayLike, *, resamples: int = 2000, seed: int = 0) -> Reals:
    """Means of `values` over corpora drawn anew: whole documents, with replacement; shape (resamples,).

    values: shape (T,), one per token (rank ≤ k or not, −ln p, 1/R); documents: shape (T,), which document each
    is of. Tokens of one document are not independent: this keeps them together, where the binomial variance
    takes every token as a draw of its own. Raises DataError for no values.
    """
    value = np.asarray(values, dtype=np.float64)
    _, index = np.unique(np.asarray(documents), return_inverse=True)
    if not value.size or value.shape != index.shape:
        raise DataError("each value needs its document, and there must be one", "values", "Check them.")
    totals, counts = np.bincount(index, value), np.bincount(index)
    rng = np.random.default_rng(seed)
    even = np.full(len(counts), 1 / len(counts))
    means = np.empty(resamples)
    for i in range(resamples):  # one at a time: a corpus can have very many documents
        times = rng.multinomial(len(counts), even)
        means[i] = times @ totals / (times @ counts)
    return means


def neg_log_rbp_document_interval(
    ranks: npt.ArrayLike,
    documents: npt.ArrayLike,
    k: int,
    level: float = 0.95,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """The interval (low, high) of −ln RBP_k by resampling whole documents (percentiles of `resampled_means`).

    To be read beside `neg_log_rbp_interval`, which takes tokens as independent. Raises as those and `rbp`.
    """
    _level(level)
    shares = resampled_means(_ranks(ranks) <= k, documents, resamples=resamples, seed=seed)
    with np.errstate(divide="ignore"):
        low, high = -np.log(np.quantile(shares, [(1 + level) / 2, (1 - level) / 2])) + 0.0
    return float(low), float(high)


def neg_log_rbp_interval(
    hits: npt.ArrayLike, tokens: npt.ArrayLike, level: float = 0.95
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The interval (low, high) of −ln RBP_k when `hits` of `tokens` independent tokens have rank ≤ k.

    Clopper and Pearson's exact binomial interval of the share, put through −ln: it covers at least `level`.
    Tokens of one text are not independent, so the true uncertainty is larger. Raises DataError unless
    0 ≤ hits ≤ tokens and tokens ≥ 1; ParameterError unless 0 < level < 1.
    """
    share = _share(hits, tokens)
    _level(level)
    count, total = np.broadcast_arrays(np.asarray(hits), np.asarray(tokens))
    low, high = proportion_confint(count.ravel(), total.ravel(), alpha=1 - level, method="beta")
    with np.errstate(divide="ignore"):
        ends = [-np.log(np.asarray(end, dtype=np.float64).reshape(share.shape)) + 0.0 for end in (high, low)]
    return ends[0], ends[1]


def neg_log_rbp_variance(hits: npt.ArrayLike, tokens: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The sampling variance of −ln RBP_k, (1 − p)/(p·tokens) with p = hits/tokens (delta method).

    Infinite where hits is 0. Tokens are taken as independent. Raises DataError as `neg_log_rbp_interval`.
    """
    p = _share(hits, tokens)
    with np.errstate(divide="ignore"):
        return np.asarray((1 - p) / (p * np.asarray(tokens)), dtype=np.float64)


def _counts(values: npt.ArrayLike, name: str, least: int) -> Integers:
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer) or (array.size and array.min() < least):
        raise DataError(f"{name} must hold whole numbers of at least {least}", name, "Take them of greater_equal.")
    return array.astype(np.int64)


def _share(hits: npt.ArrayLike, tokens: npt.ArrayLike) -> Reals:
    count, total = np.asarray(hits, dtype=np.float64), np.asarray(tokens, dtype=np.float64)
    if not ((count >= 0) & (count <= total) & (total >= 1)).all():
        raise DataError("hits must lie between 0 and tokens, and tokens be at least 1", "hits", "Check them.")
    return np.asarray(count / total, dtype=np.float64)


def _ranks(values: npt.ArrayLike) -> Reals:
    ranks = np.asarray(values, dtype=np.float64)
    if not ranks.size or not (ranks >= 1).all():
        raise DataError("ranks must be numbers of at least 1, and at least one of them", "ranks", "Check them.")
    return ranks


def _level(level: float) -> None:
    if not 0 < level < 1:
        raise ParameterError(f"a confidence level lies between 0 and 1, not {level}", "level", "Try 0.95.")
