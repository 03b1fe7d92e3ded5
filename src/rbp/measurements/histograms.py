"""The measured distributions of ranks of models on datasets."""

from dataclasses import dataclass

import numpy as np

from rbp.arrays import Reals
from rbp.measurements.rank_counts import RankCounts
from rbp.measurements.ranked import Ranked
from rbp.metric import TieRule
from rbp.store import RankStore


@dataclass(frozen=True)
class MeasuredRanks:
    """The ranks of one model on one dataset.

    counts: of ranks 1 … V, single or in bins; cross_entropy: measured on the same tokens (nats), or None; store: where
    the ranks of single tokens lie, or None.
    """

    dataset: str
    model: str
    family: str
    size: int
    counts: RankCounts
    cross_entropy: float | None
    store: RankStore | None = None

    @property
    def neg_log_rbp1(self) -> float:
        """Return −ln RBP_1."""
        return float(-np.log(self.counts.count[self.counts.high == 1].sum() / self.counts.total))


def histogram_of_store(store: RankStore, rule: TieRule = "paper") -> MeasuredRanks:
    """Count the ranks of a store. The tie rule "expected" gives ranks that are not whole: take another."""
    ranked = Ranked(store, rule)
    return MeasuredRanks(
        dataset=store.dataset,
        model=store.model,
        family=store.family,
        size=store.size,
        counts=RankCounts.of_ranks(ranked.ranks, store.vocabulary),
        cross_entropy=float(ranked.tokens["nll"].astype("float64").mean()),
        store=store,
    )


def entropy(counts: RankCounts) -> tuple[float, float, float]:
    """Compute the entropy of the ranks in nats: by smooth bins, and its bounds for bin masses that fall with rank.

    Within a bin the greatest is by equal masses; the least gives each rank at most the mass of the bin before, per
    rank, and at least that of the bin after. Smoothly: a power law within each bin, its slope that between the
    neighbours. Each has Miller and Madow's correction: (bins with a token − 1)/(2 · tokens).
    """
    share, width = counts.count / counts.total, (counts.high - counts.low + 1).astype(np.float64)
    density = share / width
    even = -_xlogx(share, density)
    middle = np.log(counts.low * counts.high.astype(np.float64)) / 2
    some = density > 0
    smooth = least = 0.0
    for i in range(len(share)):
        if not some[i]:
            continue
        if width[i] == 1:
            smooth -= share[i] * np.log(share[i])
            least -= share[i] * np.log(share[i])
            continue
        before = i - 1 if i and some[i - 1] else i
        after = i + 1 if i + 1 < len(share) and some[i + 1] else i
        slope = (np.log(density[after]) - np.log(density[before])) / max(middle[after] - middle[before], 1e-9)
        ranks = np.arange(counts.low[i], counts.high[i] + 1, dtype=np.float64)
        mass = ranks**slope
        mass *= share[i] / mass.sum()
        smooth -= _xlogx(mass, mass)
        top = density[before] if density[before] > density[i] else density[i]
        bottom = min(density[after], density[i]) if after != i else 0.0
        tall = (density[i] - bottom) / (top - bottom) * width[i] if top > bottom else width[i]
        least -= tall * top * np.log(top) + ((width[i] - tall) * bottom * np.log(bottom) if bottom > 0 else 0.0)
    lacking = (np.count_nonzero(some) - 1) / (2 * counts.total)
    return float(smooth + lacking), float(least + lacking), float(even + lacking)


def _xlogx(weight: Reals, mass: Reals) -> float:
    some = mass > 0
    return float((weight[some] * np.log(mass[some])).sum())
