"""Design effects, since tokens of one document are alike, and tests on the same tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr, ndtri

from rbp.arrays import Reals
from rbp.errors import DataError
from rbp.laws.resampling import document_sums, firsts

#: a function of sums over documents, shape (…, q); shape (…)
Statistic = Callable[[Any], Any]


def cluster_sums(values: npt.ArrayLike, clusters: npt.ArrayLike, documents: npt.ArrayLike | None = None) -> Reals:
    """Sum by document, shape (D, 7), what `log_design_effect` needs, where `clusters` are sampled as wholes.

    values, clusters, documents: shape (T,); a cluster lies within a document, and is one if no documents are given.
    Columns: clusters, Σx, Σx², tokens, and over the clusters of s values each, which sum to a: Σa², Σa·s, Σs².
    """
    value, cluster = np.asarray(values, dtype=np.float64), np.asarray(clusters)
    inside = document_sums(np.column_stack([value, value**2, np.ones(value.size)]), cluster)
    a, square, s = inside.T
    owner = _owners(cluster, cluster if documents is None else documents)
    return document_sums(np.column_stack([np.ones(a.size), a, square, s, a * a, a * s, s * s]), owner)


def _owners(clusters: npt.ArrayLike, documents: npt.ArrayLike) -> npt.NDArray[Any]:
    """Find the document of each cluster, in the order of `document_sums`."""
    cluster, document = np.asarray(clusters), np.asarray(documents)
    first = firsts(cluster)
    if first is not None:
        return np.asarray(document[first])
    place, names = pd.factorize(cluster)
    owner = np.empty(len(names), dtype=document.dtype)
    owner[place] = document
    return owner


def log_design_effect(totals: Any) -> Any:
    """Compute ln of the design effect from totals of `cluster_sums`: a `Statistic`."""
    count, x, square, tokens, aa, as_, ss = (totals[..., i] for i in range(7))
    mean = x / tokens
    between = (aa - 2 * mean * as_ + mean**2 * ss) * count / (count - 1) / tokens
    return np.log(between / (square / tokens - mean**2))


def scatter_sums(missed: npt.ArrayLike, clusters: npt.ArrayLike, documents: npt.ArrayLike) -> Reals:
    """Sum by document what `log_scatter_effect` needs, where `clusters` are sampled as wholes.

    missed: shape (T, m), of m models; clusters, documents: shape (T,). Shape (D, 3 + 2m + m²): clusters, tokens, Σs²,
    and over the clusters of s tokens each, of which model i misses a_i: Σa_i, Σa_i·s, Σa_i·a_j.
    """
    miss, cluster = np.asarray(missed, dtype=np.float64), np.asarray(clusters)
    inside = document_sums(np.column_stack([np.ones(len(miss)), miss]), cluster)
    s, a = inside[:, :1], inside[:, 1:]
    both = (a[:, :, None] * a[:, None, :]).reshape(len(a), -1)
    return document_sums(np.column_stack([np.ones(len(a)), s, s * s, a, a * s, both]), _owners(cluster, documents))


def log_scatter_effect(size: npt.ArrayLike) -> Statistic:
    """Return the `Statistic` ln of the design effect of models' scatter about a line of ln(−ln RBP_k) on ln S.

    size: shape (m,), of the models of `scatter_sums`. Rao and Scott's mean generalized design effect (1984) of the m −
    2 contrasts that a straight line leaves: tr(P·V)/(m − 2), with V the covariance of the models' values over clusters
    drawn anew, and P the weighted projection that takes the line away. Documents raise it; tokens that models miss
    together lower it, as they move the line and not the scatter.
    """
    x = np.log(np.asarray(size, dtype=float))
    design = np.column_stack([np.ones_like(x), x - x.mean()])
    m = x.size

    def statistic(totals: Any) -> Any:
        count, tokens, ss = (totals[..., i, None, None] for i in range(3))
        a, as_ = totals[..., 3 : 3 + m], totals[..., 3 + m : 3 + 2 * m]
        both = totals[..., 3 + 2 * m :].reshape(*totals.shape[:-1], m, m)
        p = a / tokens[..., 0]
        cross = p[..., :, None] * as_[..., None, :]
        shares = both - cross - np.swapaxes(cross, -1, -2) + p[..., :, None] * p[..., None, :] * ss
        shares = shares * count / (count - 1) / tokens**2
        slope = -1 / ((1 - p) * np.log1p(-p))  # of ln(−ln(1 − p))
        weight = tokens[..., 0] / (p * (1 - p) * slope**2)
        values = shares * slope[..., :, None] * slope[..., None, :]
        weighted = weight[..., :, None] * design
        inner = np.swapaxes(weighted, -1, -2) @ values @ weighted
        line = np.linalg.solve(design.T @ weighted, inner)
        trace = (weight * np.diagonal(values, axis1=-2, axis2=-1)).sum(axis=-1)
        return np.log((trace - np.trace(line, axis1=-2, axis2=-1)) / (m - 2))

    return statistic


@dataclass(frozen=True)
class Bound:
    """The smallest deviation from no trend in missed tokens, whichever tokens the models share.

    change: the contrast Σ w·misses; sd: the largest standard deviation that it can have for independent tokens under
    these margins; z = change/sd, the smallest deviation; p: its two-sided probability, an upper bound; needed: the
    design effect at which z would fall to the threshold of `level`, so a lower bound on the clustering that explains
    the change away.
    """

    change: float
    sd: float
    z: float
    p: float
    needed: float
    level: float


def trend_bound(misses: npt.ArrayLike, weights: npt.ArrayLike, *, level: float = 0.95) -> Bound:
    """Bound the test of a trend in the missed tokens of several models on the same tokens, from the totals alone.

    misses: shape (m,), how many tokens each model misses; weights: shape (m,), the contrast, with sum 0. The variance
    is the largest that these totals allow: models of one sign miss the same tokens as far as they can, those of
    opposite sign share none. For two models it is McNemar's test with as few shared misses as can be. Raises DataError
    for weights that do not sum to 0, or negative misses.
    """
    count, weight = np.asarray(misses, dtype=float), np.asarray(weights, dtype=float)
    if count.shape != weight.shape or abs(weight.sum()) > 1e-9 * np.abs(weight).sum() or (count < 0).any():
        raise DataError("a trend needs one weight for each model, and their sum must be 0", "weights", "Check them.")
    same = np.sign(weight)[:, None] == np.sign(weight)[None, :]
    shared = np.minimum(count[:, None], count[None, :])
    variance = float((same * np.outer(weight, weight) * shared).sum())
    change, sd = float(weight @ count), float(np.sqrt(variance))
    z = change / sd if sd else 0.0
    return Bound(change, sd, z, float(2 * ndtr(-abs(z))), (z / ndtri((1 + level) / 2)) ** 2, level)


def log_size_weights(size: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Make the contrast of a straight line in ln S: deviations from the mean, scaled to a spread of 1 end to end."""
    x = np.log(np.asarray(size, dtype=float))
    return np.asarray((x - x.mean()) / np.ptp(x), dtype=np.float64)
