"""The floor without a network: interpolated Kneser–Ney n-grams of the ladder's training rows, ranked like its models.

The probability of token w after the m − 1 tokens h is (Kneser and Ney 1995, as interpolated by Chen and Goodman 1999)

    p_m(w | h) = max(c(h w) − D_m, 0) / c(h ·) + D_m · n(h ·) / c(h ·) · p_{m−1}(w | h without its first token)

c: how often h w stands in the text, at the highest order; below, how many different tokens stand before it. n: how many
different tokens stand after h. D_m = n₁ / (n₁ + 2 n₂), from how many m-grams were counted once and twice, or 1/2. After
an h that was never seen, a lower order decides. Tokens that no context tells apart get exactly equal probabilities.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ladder.measuring import Measured
from rbp.arrays import Integers, Reals
from rbp.errors import ParameterError
from rbp.extract.protocol import Row

ORDERS = (1, 2, 3, 4, 5)
_AT_ONCE = 256  # tokens whose distributions are held at once


@dataclass(frozen=True)
class _Level:
    """One order above the first. A context is its tokens as one number, the last one in the lowest bits.

    contexts: sorted, those seen; starts: where the tokens after each begin, [contexts + 1]; tokens and gains: the
    tokens after each, and what they get of its probability; backoff: what is left to the order below.
    """

    contexts: Integers
    starts: Integers
    tokens: Integers
    gains: Reals
    backoff: Reals


@dataclass(frozen=True)
class NGrams:
    """A model of one order. first: p_1, shape [V]; size: how many different n-grams of all orders it has counted."""

    first: Reals
    levels: tuple[_Level, ...]
    bits: int
    size: int

    @property
    def order(self) -> int:
        """The number of tokens in its longest n-grams."""
        return len(self.levels) + 1

    def distributions(self, ids: Integers, at: Integers) -> Reals:
        """p(· | the tokens before) at the positions `at` of the tokens `ids`, [len(at), V], rows that sum to 1."""
        share = np.ones(len(at))
        found = []
        for length in range(len(self.levels), 0, -1):  # from the highest order down: what is left is the next one's
            rows = np.flatnonzero(at >= length)
            context = np.zeros(len(rows), np.int64)
            for back in range(length, 0, -1):
                context = (context << self.bits) | ids[at[rows] - back]
            level = self.levels[length - 1]
            place = np.searchsorted(level.contexts, context)
            seen = place < len(level.contexts)
            seen[seen] = level.contexts[place[seen]] == context[seen]
            rows, place = rows[seen], place[seen]
            counts = level.starts[place + 1] - level.starts[place]
            entries = np.repeat(level.starts[place] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            found.append(
                (np.repeat(rows, counts), level.tokens[entries], np.repeat(share[rows], counts) * level.gains[entries])
            )
            share[rows] *= level.backoff[place]
        whole = share[:, None] * self.first
        for rows, tokens, gains in reversed(found):  # a token stands once after a context
            whole[rows, tokens] += gains
        return whole


def count(rows: npt.NDArray[np.uint16], order: int, vocabulary: int) -> NGrams:
    """Return the model of `order` of the training rows [rows, context + 1], whose first tokens are predicted by none.

    Raises ParameterError for an order below 1, and for one whose n-grams do not fit into 63 bits.
    """
    bits = max(1, int(vocabulary - 1).bit_length())
    if not 1 <= order <= 63 // bits:
        what = f"order {order} is not possible with a vocabulary of {vocabulary:,} tokens"
        raise ParameterError(what, "order", f"Give 1 to {63 // bits}.")
    grams, counts = np.unique(_grams(rows, order, bits), return_counts=True)
    levels, size = [], len(grams)
    for length in range(order, 1, -1):
        levels.append(_level(grams, counts, bits))
        grams, counts = np.unique(grams & ((1 << bits * (length - 1)) - 1), return_counts=True)
        size += len(grams)
    discount = _discount(counts)
    first = np.full(vocabulary, discount * len(grams) / counts.sum() / vocabulary)
    first[grams] += (counts - discount) / counts.sum()
    return NGrams(first, tuple(reversed(levels)), bits, size)


def _grams(rows: npt.NDArray[np.uint16], order: int, bits: int) -> Integers:
    """Return the `order` successive tokens that end at each predicted token, as one number."""
    wide = rows.astype(np.int64)
    last = wide.shape[1]
    begin = max(order - 1, 1)
    whole = np.zeros((len(wide), last - begin), np.int64)
    for back in range(order - 1, -1, -1):
        whole = (whole << bits) | wide[:, begin - back : last - back]
    return whole.ravel()


def _level(grams: Integers, counts: Integers, bits: int) -> _Level:
    contexts, starts = np.unique(grams >> bits, return_index=True)
    total, kinds = np.add.reduceat(counts, starts), np.diff(np.append(starts, len(grams)))
    discount = _discount(counts)
    gains = (counts - discount) / np.repeat(total, kinds)
    return _Level(contexts, np.append(starts, len(grams)), grams & ((1 << bits) - 1), gains, discount * kinds / total)


def _discount(counts: Integers) -> float:
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return once / (once + 2 * twice) if once and twice else 0.5


def measure(model: NGrams, rows: Sequence[Row], temperatures: Sequence[float] = ()) -> Measured:
    """Ranks by the probabilities, −ln p and the entropy of the prediction, of all scored tokens in order.

    At temperature T the probabilities are p^(1/T), divided by their sum.
    """
    parts = [_one(model, ids, at, temperatures) for ids, at in _chunks(rows)]
    document = np.concatenate([np.full(len(row.scored), row.document) for row in rows])
    return Measured(document, *(np.concatenate(each) for each in zip(*parts, strict=True)))


def _chunks(rows: Sequence[Row]) -> Iterator[tuple[Integers, Integers]]:
    for row in rows:
        for first in range(0, len(row.scored), _AT_ONCE):
            yield row.ids, row.scored[first : first + _AT_ONCE]


def _one(model: NGrams, ids: Integers, at: Integers, temperatures: Sequence[float]) -> tuple[npt.NDArray[Any], ...]:
    p = model.distributions(ids, at)
    target = p[np.arange(len(at)), ids[at]][:, None]
    log, log_target = np.log(p), np.log(target[:, 0])
    entropy = -np.einsum("tv,tv->t", p, log)
    tempered = [np.log(np.exp(log / t).sum(1)) - log_target / t for t in temperatures]
    return (p > target).sum(1), (p == target).sum(1), -log_target, entropy, np.array(tempered).reshape(-1, len(at)).T
