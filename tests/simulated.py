"""Hits of simulated documents with known laws, and ranks in bins."""

import numpy as np
import pandas as pd

from rbp.measurements.counts import Counts
from rbp.measurements.rank_counts import RankCounts


def chain(rng, documents, length, hit, stay):
    """A stationary two-state chain in each document: (hits, documents, positions), each of shape (tokens,)."""
    good = np.empty((documents, length), dtype=bool)
    good[:, 0] = rng.random(documents) < hit
    back = hit * (1 - stay) / (1 - hit)  # what keeps the share of hits
    for i in range(1, length):
        good[:, i] = rng.random(documents) < np.where(good[:, i - 1], stay, back)
    return rows(good)


def rows(good):
    documents, length = good.shape
    return good.ravel(), np.repeat(np.arange(documents), length), np.tile(np.arange(length), documents)


def in_bins(counts: RankCounts, edges: np.ndarray) -> RankCounts:
    """In the bins edge … next edge − 1, where every rank lies within the edges and no bin crosses one."""
    edge = np.asarray(edges, dtype=np.int64)
    place = np.searchsorted(edge, counts.low, side="right") - 1
    count = np.bincount(place, counts.count, minlength=len(edge) - 1)
    return RankCounts(edge[:-1], edge[1:] - 1, count.astype(np.float64), counts.vocabulary)


def counts(names, sizes, thresholds, tokens, hits, nll, *, dataset="wikipedia", family="Own", vocabulary=50) -> Counts:
    """What rank stores of one family would give."""
    models = pd.DataFrame({"model": list(names), "family": family, "size": np.asarray(sizes, dtype=np.int64)})
    return Counts(dataset, models, vocabulary, tuple(thresholds), tokens, hits, nll)
