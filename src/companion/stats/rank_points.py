"""Points within bins of ranks, which sums and integrals over a fitted distribution take."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rbp.arrays import Integers, Reals


@dataclass(frozen=True, eq=False)
class Points:
    """Points within bins of ranks, ascending, shape (n,).

    first: the first rank; at: the places x; log: ln x; log_measure: ln of each point's part in the integral over x, 0
    for single ranks; begin: the first point of each bin.
    """

    first: int
    at: Reals
    log: Reals
    log_measure: Reals
    begin: Integers


def single(starts: Integers, vocabulary: int) -> Points:
    """Make a point at each rank."""
    ranks = np.arange(starts[0], vocabulary + 1, dtype=np.float64)
    return Points(int(starts[0]), ranks, np.log(ranks), np.zeros(len(ranks)), starts - starts[0])


def rounded(starts: Integers, vocabulary: int) -> Points:
    """Rank k has the interval from k − ½ to k + ½; the last has no end, so that what lies beyond V counts as V."""
    inner = np.append(starts, vocabulary) if starts[-1] < vocabulary else starts
    edges = np.log(inner - 0.5)
    y, measure, nodes = _between(edges)
    beyond, tail = _half_line()
    y, measure = np.append(y, edges[-1] + beyond), np.append(measure, tail)
    nodes = np.append(nodes, len(tail))
    if len(inner) > len(starts):  # the last bin has both the ranks below V and the tail
        nodes = np.append(nodes[:-2], nodes[-2:].sum())
    return _of(int(starts[0]), y, measure, nodes)


def ceiling(starts: Integers, vocabulary: int) -> Points:
    """Rank k has the interval from k − 1 to k, rank 1 all below 1, and the last ends at V: R = ⌈X⌉, given X ≤ V."""
    edges = np.append(starts - 1.0, vocabulary)
    y, measure, nodes = _between(np.log(np.maximum(edges, 1.0)))
    if edges[0] == 0:  # from 0 to 1: by the half-line
        beyond, tail = _half_line()
        y, measure = np.append(-beyond[::-1], y), np.append(tail[::-1], measure)
        nodes = np.append(nodes[0] + len(tail), nodes[1:])
    return _of(int(starts[0]), y, measure, nodes)


@lru_cache(maxsize=16)
def by_rank(points: Callable[[Integers, int], Points], first: int, vocabulary: int) -> Points:
    """Return the points with each rank as a bin of its own."""
    return points(np.arange(first, vocabulary + 1), vocabulary)


def log_sums(weight: Reals, begin: Integers | Sequence[int]) -> Reals:
    """Return ln Σ exp(weight) from each beginning to the next, shape (len(begin),)."""
    top = np.maximum.reduceat(weight, begin)
    share = np.exp(weight - np.repeat(top, np.diff(np.append(begin, len(weight)))))
    return np.asarray(top + np.log(np.add.reduceat(share, begin)), dtype=np.float64)


def _of(first: int, y: Reals, measure: Reals, nodes: Integers) -> Points:
    begin = np.cumsum(nodes) - nodes
    with np.errstate(divide="ignore"):  # an interval without width has no mass
        log_measure = np.log(measure) + y  # dx = x dy
    return Points(first, np.exp(y), y, log_measure, begin)


def _between(edges: Reals) -> tuple[Reals, Reals, Integers]:
    """Return Gauss–Legendre nodes between edges in y, their weights, and how many each interval has.

    As many as give relative errors below 1e-12 where densities fall no faster than a lognormal's with σ = 0.2.
    """
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    nodes = 2 + np.ceil(np.clip(120 * half - 0.06, 0, 118)).astype(np.int64)
    y, measure = np.empty(nodes.sum()), np.empty(nodes.sum())
    begin = np.cumsum(nodes) - nodes
    for count in np.unique(nodes):
        points, weight = _legendre(int(count))
        chosen = nodes == count
        place = begin[chosen, None] + np.arange(count)
        y[place] = middle[chosen, None] + half[chosen, None] * points
        measure[place] = half[chosen, None] * weight
    return y, measure, nodes


@lru_cache
def _legendre(nodes: int) -> tuple[Reals, Reals]:
    return np.polynomial.legendre.leggauss(nodes)


def _half_line() -> tuple[Reals, Reals]:
    """Return nodes and weights on 0 … ∞ for what decays like exp(−a t), a ≥ 0.05, or faster."""
    x = np.arange(-3.5, 6.5, 0.1)
    t = np.exp(x - np.exp(-x))
    return t, 0.1 * t * (1 + np.exp(-x))
