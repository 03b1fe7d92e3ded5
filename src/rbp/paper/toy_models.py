"""Small made-up models for the chapter on the metric: distributions and scores with a known answer.

Nothing here is measured. Each function takes plain numbers or a seed and is deterministic.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.core.arrays import Integers, Reals
from rbp.core.errors import ParameterError
from rbp.ranks import metric

CITIES = ("Canberra", "Sydney", "Melbourne", "Perth", "Hobart")
FIGURE_1 = {"Outranked": (0.28, 0.33, 0.30, 0.06, 0.03), "First": (0.28, 0.22, 0.20, 0.17, 0.13)}
"""The paper's figure 1, the truth first: its probability and its two ranks are the paper's, all else is ours."""

FIGURE_2 = {
    "Token 1": (0.21, 0.36, 0.27, 0.10, 0.06),
    "Token 2": (0.28, 0.24, 0.20, 0.16, 0.12),
    "Token 3": (0.19, 0.30, 0.26, 0.15, 0.10),
}
"""The paper's figure 2, the truth first: the truths' probabilities are the paper's, all else is ours."""


def bars(examples: Mapping[str, Sequence[float]], tokens: Sequence[str]) -> pd.DataFrame:
    """Distributions, the truth first, as a table: panel (the name), token, probability, truth."""
    rows = [
        (name, *each, i == 0) for name, ps in examples.items() for i, each in enumerate(zip(tokens, ps, strict=True))
    ]
    return pd.DataFrame(rows, columns=["panel", "token", "probability", "truth"])


def ranks_of(scores: npt.ArrayLike, truth: npt.ArrayLike, rule: metric.TieRule) -> Integers | Reals:
    """The rank of each truth among its scores: `metric.rank` of `metric.greater_equal`, with their errors."""
    return metric.rank(*metric.greater_equal(scores, truth), rule)


def even(p_truth: npt.ArrayLike, vocabulary: int) -> Reals:
    """Distributions that give the truth `p_truth` and share the rest evenly among all other tokens.

    p_truth: shape (M,), each in (0, 1). Returns shape (M, vocabulary); the truth is token 0. The truth comes
    first wherever p_truth exceeds (1 − p_truth)/(vocabulary − 1): the best rank that its probability allows.
    Raises ParameterError for a vocabulary below 2 or probabilities outside (0, 1).
    """
    p = _probabilities(p_truth, vocabulary)
    others = np.repeat(((1 - p) / (vocabulary - 1))[:, None], vocabulary - 1, axis=1)
    return np.column_stack([p, others])


def crowded(p_truth: npt.ArrayLike, vocabulary: int) -> Reals:
    """Distributions that give the truth `p_truth` and put as many rivals as possible above it.

    Tokens with at least the truth's probability number at most 1/p_truth, so its rank is ⌊1/p_truth⌋ at worst:
    the rest is shared evenly by ⌊1/p_truth⌋ − 1 rivals, all others get nothing; below one rival, one token takes it
    all. Shapes, order and errors are those of `even`, and a vocabulary with too little room for the rivals is an error.
    """
    p = _probabilities(p_truth, vocabulary)
    rivals = np.maximum(np.floor(1 / p) - 1, 1)
    if rivals.max() > vocabulary - 1:
        raise ParameterError(
            f"a truth of probability {p.min():g} can have {rivals.max():.0f} rivals", "vocabulary", "Enlarge it."
        )
    place = np.arange(1, vocabulary)
    others = np.where(place <= rivals[:, None], ((1 - p) / rivals)[:, None], 0.0)
    return np.column_stack([p, others])


def simulated_scores(seed: int, positions: int, vocabulary: int) -> tuple[Reals, npt.NDArray[np.int64]]:
    """Scores of a made-up model, and truths that its own softmax draws: at temperature 1 its probabilities are right.

    The score of token v is 12 − 1.2·ln v + 2.5·(standard normal), so that low tokens are common words.
    Returns scores (positions, vocabulary) and truths (positions,). Raises ParameterError for no position, or a
    vocabulary below 2.
    """
    if positions < 1 or vocabulary < 2:
        raise ParameterError("a simulation needs a position and two tokens", "positions, vocabulary", "Raise them.")
    rng = np.random.default_rng(seed)
    scores = 12 - 1.2 * np.log(np.arange(1, vocabulary + 1))
    scores = scores + 2.5 * rng.standard_normal((positions, vocabulary))
    # the largest of (score + Gumbel noise) is a draw from the softmax of the scores
    return scores, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1).astype(np.int64)


def p_truth(scores: Reals, truth: npt.NDArray[np.int64], temperature: float = 1.0) -> Reals:
    """The softmax probability of the truth, with scores divided by `temperature`; shape (positions,).

    Raises ParameterError unless the temperature is above 0.
    """
    if not temperature > 0:
        raise ParameterError(f"a temperature must be above 0, not {temperature}", "temperature", "1 changes nothing.")
    scaled = (scores - scores.max(axis=1, keepdims=True)) / temperature
    own = np.take_along_axis(scaled, truth[:, None], axis=1)[:, 0]
    return np.asarray(np.exp(own) / np.exp(scaled).sum(axis=1), dtype=np.float64)


def round_significand(values: npt.ArrayLike, bits: int) -> Reals:
    """Values rounded to the nearest number with a significand of `bits` bits (float32 has 24, bfloat16 8).

    The range of the exponent is not limited. Raises ParameterError unless 1 ≤ bits ≤ 53.
    """
    if not 1 <= bits <= 53:
        raise ParameterError(f"a significand has 1 to 53 bits, not {bits}", "bits", "bfloat16 has 8.")
    part, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    return np.asarray(np.ldexp(np.rint(np.ldexp(part, bits)), exponent - bits), dtype=np.float64)


def membership(greater: npt.ArrayLike, equal: npt.ArrayLike, k: int) -> float:
    """The share of truths in a list of the k best, if the list orders equal scores at random (its mean).

    A list of k has k − greater places left for the `equal` tokens that score like the truth, which is one of them.
    """
    left = (k - np.asarray(greater)) / np.asarray(equal)
    return float(np.clip(left, 0, 1).mean())


RULES: tuple[metric.TieRule, ...] = ("strict", "expected", "paper")


def rbp_by_rule(greater: npt.ArrayLike, equal: npt.ArrayLike, k: int) -> dict[str, float]:
    """RBP_k by each rule for ties, and by `membership` in a list of k ("list"); counts as of `metric.greater_equal`."""
    shares = {rule: float(metric.rbp(metric.rank(greater, equal, rule), k)) for rule in RULES}
    return shares | {"list": membership(greater, equal, k)}


def ties_by_hand_shown() -> dict[str, Any]:
    """The rank of one of three equal scores among five, by each rule, for `Page.table`."""
    counts = metric.greater_equal([5, 3, 3, 3, 1], 2)
    names = {rule: rule for rule in ("paper", "strict", "expected")} | {"list": "list, shuffled"}
    within = {f"k = {k}": rbp_by_rule(*counts, k) for k in (1, 2, 3, 4)}
    rank = {rule: float(metric.rank(*counts, rule)) for rule in RULES}
    table = pd.DataFrame({"rule": names, "rank": rank, **within}, index=list(names))
    return {
        "table": table.reset_index(drop=True),
        "caption": "<b>Scores 5, 3, 3, 3, 1; the truth is one of the 3s.</b> Its rank, and its share in RBPₖ.",
        "formats": {"rank": "{:g}"} | dict.fromkeys(within, "{:.2f}"),
    }


def _probabilities(p_truth: npt.ArrayLike, vocabulary: int) -> Reals:
    p = np.atleast_1d(np.asarray(p_truth, dtype=np.float64))
    if vocabulary < 2 or not ((p > 0) & (p < 1)).all():
        raise ParameterError(
            "probabilities must lie between 0 and 1, and a vocabulary hold two tokens", "p_truth, vocabulary", None
        )
    return p
