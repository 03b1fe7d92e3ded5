"""Compute RBP_k from the scores of a model: ranks, tie rules, cross-entropy.

A language model gives each of the V tokens of its vocabulary a score. The rank of the ground-truth token is (equation 3
of the paper)

    R = number of tokens v with score(v) ≥ score(truth), the truth itself included.

RBP_k is the share of tokens of a corpus with R ≤ k (equation 4): the distribution function of the rank. Cross-entropy
is the mean of −ln p(truth) (equation 2): RBP_k depends on the order alone, cross-entropy on one probability alone.
"""

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from rbp.arrays import Integers, Reals, as_ranks
from rbp.errors import DataError, ParameterError

TieRule = Literal["paper", "strict", "expected"]


def greater_equal(scores: npt.ArrayLike, target: npt.ArrayLike) -> tuple[Integers, Integers]:
    """Count the tokens that score strictly higher than the truth, and those that score the same, itself included.

    scores: shape (…, V), any real unit (logits or probabilities); target: shape (…), the index of the truth.
    Returns (greater, equal), each of shape (…), with 0 ≤ greater, 1 ≤ equal and greater + equal ≤ V.
    Raises DataError for NaN scores, and for a target outside 0 … V − 1 or of another shape.
    """
    score, index = np.asarray(scores), np.asarray(target)
    if not np.issubdtype(index.dtype, np.integer) or score.ndim == 0 or score.shape[:-1] != index.shape:
        fault = f"scores of shape {score.shape} need whole-number targets of shape {score.shape[:-1]}"
        raise DataError(fault, f"target: {index.dtype}, shape {index.shape}", "Give one target per position.")
    if np.isnan(score).any():
        raise DataError("a score is NaN", "scores", "NaN cannot be ordered: find where it comes from.")
    if index.size and not (index.min() >= 0 and index.max() < score.shape[-1]):
        raise DataError(f"a target lies outside 0 … {score.shape[-1] - 1}", "target", "Check the tokenizer.")
    truth = np.take_along_axis(score, index[..., None], axis=-1)
    return (score > truth).sum(axis=-1, dtype=np.int64), (score == truth).sum(axis=-1, dtype=np.int64)


def rank(greater: npt.ArrayLike, equal: npt.ArrayLike, rule: TieRule = "paper") -> Integers | Reals:
    """Return the rank of the truth, in 1 … V, under one of three tie rules.

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
    """Compute RBP_k, the share of `ranks` that are at most k (equation 4).

    A float for one k; an array of k's shape for several. Raises DataError for no ranks, NaN, or a rank below
    1; ParameterError for a k below 1.
    """
    ordered = np.sort(as_ranks(ranks), axis=None)
    threshold = np.asarray(k, dtype=np.float64)
    if not (threshold >= 1).all():
        raise ParameterError(f"a threshold must be at least 1, not {k!r}", "k", "RBP_k counts the ranks 1 … k.")
    share = np.searchsorted(ordered, threshold, side="right") / ordered.size
    return float(share) if threshold.ndim == 0 else share


def cross_entropy(p_truth: npt.ArrayLike) -> float:
    """Compute the mean of −ln p over the probabilities of the truth, in nats (equation 2); infinite if one is 0.

    Raises DataError for none, NaN, or a value outside 0 … 1.
    """
    p = np.asarray(p_truth, dtype=np.float64)
    if not p.size or not ((p >= 0) & (p <= 1)).all():
        raise DataError("probabilities must lie between 0 and 1, at least one of them", "p_truth", "Check them.")
    with np.errstate(divide="ignore"):
        return float(-np.log(p).mean()) + 0.0


def _counts(values: npt.ArrayLike, name: str, least: int) -> Integers:
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.integer) or (array.size and array.min() < least):
        raise DataError(f"{name} must hold whole numbers of at least {least}", name, "Take them of greater_equal.")
    return array.astype(np.int64)
