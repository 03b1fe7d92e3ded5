"""How many tokens have which rank: counts of single ranks, or of bins of ranks."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rbp.errors import DataError

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


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
            what = f"bins of ranks must ascend, lie apart and lie within 1 … {self.vocabulary}"
            raise DataError(what, "ranks", "Check the bins, and the size of the vocabulary.")

    @classmethod
    def of_ranks(cls, ranks: npt.ArrayLike, vocabulary: int) -> "RankCounts":
        """Of one rank for each token, shape (T,). Raises DataError for a rank outside 1 … V, or that is not whole."""
        values = np.asarray(ranks)
        if not np.issubdtype(values.dtype, np.integer):
            raise DataError("ranks must be whole numbers", "ranks", 'Take the tie rule "paper" or "strict".')
        rank, count = np.unique(values.astype(np.int64), return_counts=True)
        return cls(rank, rank, count.astype(np.float64), vocabulary)

    @property
    def total(self) -> float:
        """How many tokens."""
        return float(self.count.sum())

    @property
    def mean_log(self) -> float:
        """The mean of ln R, each bin taken at its geometric middle."""
        return float(np.average((np.log(self.low) + np.log(self.high)) / 2, weights=self.count))

    def since(self, first: int) -> "RankCounts":
        """The bins that begin at `first` or later. Raises DataError where none is left."""
        keep = self.low >= first
        return RankCounts(self.low[keep], self.high[keep], self.count[keep], self.vocabulary)

    def with_counts(self, count: npt.ArrayLike) -> "RankCounts":
        """The same bins with other counts."""
        return RankCounts(self.low, self.high, np.asarray(count, dtype=np.float64), self.vocabulary)

    def binned(self, edges: npt.ArrayLike) -> "RankCounts":
        """In the bins edge … next edge − 1; every rank must lie within the edges and no bin may cross one."""
        edge = np.asarray(edges, dtype=np.int64)
        place = np.searchsorted(edge, self.low, side="right") - 1
        if (place != np.searchsorted(edge, self.high, side="right") - 1).any() or place.min() < 0:
            raise DataError("a bin of ranks crosses an edge, or lies outside", "edges", None)
        count = np.bincount(place, self.count, minlength=len(edge) - 1)
        return RankCounts(edge[:-1], edge[1:] - 1, count.astype(np.float64), self.vocabulary)

    def sums(self, mass: Reals, first: int) -> Reals:
        """The sum of `mass`, over ranks first … V, in each bin."""
        if (self.low == self.high).all():
            return np.asarray(mass[self.low - first], dtype=np.float64)
        ends = np.column_stack([self.low - first, self.high + 1 - first]).ravel()
        return np.asarray(np.add.reduceat(np.append(mass, 0.0), ends)[::2], dtype=np.float64)
