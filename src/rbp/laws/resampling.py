"""Intervals by documents: leave each document out in turn, then Student's t.

Tokens of one document are alike, so documents are the units: they are taken as drawn from many, and a statistic is
computed of all of them and of all but each. This jackknife was chosen among seven kinds by how often they cover what
they should on the ladder's own documents (data/ladder/coverage.csv). Other units, such as sizes of models, are left
out alike. Nothing is drawn: the same sums give the same interval.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtrit

from rbp.arrays import Integers, Reals, as_ranks, check_level
from rbp.errors import DataError


class Interval(NamedTuple):
    """A statistic and the ends of its interval: numbers, or arrays of one shape."""

    estimate: Any
    low: Any
    high: Any


def without_each(sums: npt.ArrayLike) -> Reals:
    """Sum over all units, then over all but each in turn: shape (1 + D, …), from each unit's own, shape (D, …)."""
    unit_sums = np.asarray(sums, dtype=np.float64)
    whole = unit_sums.sum(axis=0, keepdims=True)
    with np.errstate(invalid="ignore"):  # ∞ − ∞: without a document of infinite loss nothing is known
        return np.concatenate([whole, whole - unit_sums])


def covariance(values: npt.ArrayLike) -> Reals:
    """Return the covariance of statistics over sampled units: shape (…, m, m), of values of shape (1 + D, …, m).

    values: as for `interval`. (D − 1)/D·Σ(θ_d − θ̄)(θ_d − θ̄)ᵀ over the D values without one unit (Efron 1982).
    """
    without = np.asarray(values, dtype=np.float64)[1:]
    away = without - without.mean(axis=0)
    matrix: Reals = (len(without) - 1) / len(without) * np.einsum("d...i,d...j->...ij", away, away)
    return matrix


def variance(values: npt.ArrayLike) -> Any:
    """Return the diagonal of `covariance`: of each statistic alone, shape (…), of values of shape (1 + D, …)."""
    without = np.asarray(values, dtype=np.float64)[1:]
    with np.errstate(invalid="ignore"):
        return (len(without) - 1) * without.var(axis=0)


def interval(values: npt.ArrayLike, *, level: float = 0.95) -> Interval:
    """Return the interval of confidence `level` of each statistic: shape (…).

    values: shape (1 + D, …), of all units and of all but each, such as functions of `without_each`. Best on a scale
    where errors are alike on both sides: a logarithm. Student's t of D − 1 degrees of freedom. NaN for a single unit,
    and where a value is not finite: one document alone decides there whether the statistic exists.
    """
    every = np.asarray(values, dtype=np.float64)
    units = len(every) - 1
    if units < 2:
        return student(every[0], np.full(every.shape[1:], np.nan)[()], 1, level=level)
    return student(every[0], variance(every), units - 1, level=level)


def student(estimate: Any, variance: Any, df: float, *, level: float) -> Interval:
    """Return Student's interval of an estimate whose variance is known to `df` degrees of freedom."""
    check_level(level)
    half = stdtrit(df, (1 + level) / 2) * np.sqrt(variance)
    return Interval(estimate, estimate - half, estimate + half)


def document_sums(columns: npt.ArrayLike, documents: npt.ArrayLike) -> Reals:
    """Sum `columns`, shape (T, q), over each of the documents, shape (T,): shape (D, q)."""
    column, document = np.asarray(columns, dtype=np.float64), np.asarray(documents)
    if not column.size or len(column) != len(document):
        raise DataError("each value needs its document, and there must be one", "values", "Check them.")
    first = firsts(document)
    if first is not None:
        return np.asarray(np.add.reduceat(column, first, axis=0))
    place, _ = pd.factorize(document)  # in their order: no sorting
    return np.column_stack([np.bincount(place, each) for each in column.T])


def firsts(groups: npt.NDArray[Any]) -> Integers | None:
    """Return where each group begins, if each stands together, as documents do in a store."""
    first = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    names = groups[first]
    return first if (names[1:] > names[:-1]).all() or len(np.unique(names)) == len(names) else None


def log_neg_log_share(totals: Any) -> Any:
    """Return ln(−ln p) with p = hits/tokens, from totals (…, (hits, tokens)); −inf where all tokens are hits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(-np.log(totals[..., 0] / totals[..., 1]))


def neg_log_rbp_document_interval(
    ranks: npt.ArrayLike, documents: npt.ArrayLike, k: int, level: float = 0.95
) -> tuple[float, float]:
    """Return the interval (low, high) of −ln RBP_k, documents being the units (`interval` of its logarithm).

    To be read beside `neg_log_rbp_interval`, which takes tokens as independent. NaN for a single document, where all
    ranks are hits or none is, and where all misses (or hits) lie in one document. Raises as that and `as_ranks`.
    """
    hit = as_ranks(ranks) <= k
    sums = document_sums(np.column_stack([hit, np.ones(hit.size)]), documents)
    _, low, high = interval(log_neg_log_share(without_each(sums)), level=level)
    return float(np.exp(low)), float(np.exp(high))
