"""Counts of tokens by rank, in bins of ranks."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rbp.arrays import Integers, Reals
from rbp.errors import DataError


@dataclass(frozen=True)
class RankCounts:
    """Counts of ranks in bins low … high, both included, ascending and apart; single ranks where low = high.

    count may hold weights that are no whole numbers. vocabulary: V, the largest rank there can be.
    """

    low: Integers
    high: Integers
    count: Reals
    vocabulary: int

    def __post_init__(self) -> None:
        low, high, count = self.low, self.high, self.count
        if not low.size or not low.shape == high.shape == count.shape or not (count >= 0).all() or not count.any():
            raise DataError("ranks need bins with counts, at least one of them above 0", "ranks", "Check the counts.")
        if (low < 1).any() or (high < low).any() or (low[1:] <= high[:-1]).any() or high[-1] > self.vocabulary:
            fault = f"bins of ranks must ascend, lie apart and lie within 1 … {self.vocabulary}"
            raise DataError(fault, "ranks", "Check the bins, and the size of the vocabulary.")

    @classmethod
    def of_ranks(cls, ranks: npt.ArrayLike, vocabulary: int) -> "RankCounts":
        """Count one rank for each token, shape (T,). Raises DataError for a rank outside 1 … V, or not whole."""
        values = np.asarray(ranks)
        if not np.issubdtype(values.dtype, np.integer):
            raise DataError("ranks must be whole numbers", "ranks", 'Take the tie rule "paper" or "strict".')
        rank, count = np.unique(values.astype(np.int64), return_counts=True)
        return cls(rank, rank, count.astype(np.float64), vocabulary)

    @property
    def total(self) -> float:
        """Count the tokens."""
        return float(self.count.sum())

    def since(self, first: int) -> "RankCounts":
        """Return the bins that begin at `first` or later. Raises DataError where none is left."""
        keep = self.low >= first
        return RankCounts(self.low[keep], self.high[keep], self.count[keep], self.vocabulary)

    def sums(self, mass: Reals, first: int) -> Reals:
        """Sum `mass`, over ranks first … V, in each bin."""
        if (self.low == self.high).all():
            return np.asarray(mass[self.low - first], dtype=np.float64)
        edges = np.column_stack([self.low - first, self.high + 1 - first]).ravel()
        return np.asarray(np.add.reduceat(np.append(mass, 0.0), edges)[::2], dtype=np.float64)
