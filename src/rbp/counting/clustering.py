"""What drawing whole documents does to an error that was computed for independent tokens."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rbp.errors import DataError
from rbp.metric import Reals


def design_effect(values: npt.ArrayLike, documents: npt.ArrayLike) -> float:
    """The variance of the mean of `values` over documents drawn anew, over that for tokens drawn one by one.

    values: shape (T,), one per token (missed or not; or the difference of two models' misses); documents: shape (T,).
    The first variance is that of a ratio over D documents, D/(D − 1)·Σ(e_d)²/T² with e_d a document's sum of
    deviations from the mean; the second is the variance of the values over T. 1 for independent tokens; up to the
    length of a document where it misses all or nothing. NaN where the values do not vary. Raises DataError for
    fewer than two documents.
    """
    value, sums = _deviations(values, documents)
    variance = float(value.var())
    if variance == 0:
        return float("nan")
    count, total = len(sums), value.size
    return count / (count - 1) * float(sums @ sums) / total / variance


@dataclass(frozen=True)
class Parts:
    """The variance of `values` split into documents' and tokens' parts, by the analysis of variance.

    between: the variance of documents' own rates, less what chance makes of it (it can be negative); within: the mean
    variance inside a document; shared = between/(between + within): the intraclass correlation, which is the
    correlation of two tokens of one document; documents, tokens: how many.
    """

    between: float
    within: float
    shared: float
    documents: int
    tokens: int


def variance_parts(values: npt.ArrayLike, documents: npt.ArrayLike) -> Parts:
    """Split the variance of `values`, shape (T,), by `documents`, shape (T,). Raises DataError as `design_effect`."""
    deviations, sums = _deviations(values, documents)
    counts = np.unique(np.asarray(documents), return_counts=True)[1]
    groups, tokens = len(counts), deviations.size
    squares = float(deviations @ deviations)
    between_squares = float(np.sum(sums**2 / counts))
    within = (squares - between_squares) / (tokens - groups)
    typical = (tokens - float(counts @ counts) / tokens) / (groups - 1)  # a document's length, as the F test counts it
    between = (between_squares / (groups - 1) - within) / typical
    total = between + within
    return Parts(between, within, between / total if total > 0 else float("nan"), groups, tokens)


def _deviations(values: npt.ArrayLike, documents: npt.ArrayLike) -> tuple[Reals, Reals]:
    """The values less their mean, and the sum of that for each document."""
    value = np.asarray(values, dtype=np.float64)
    _, place = np.unique(np.asarray(documents), return_inverse=True)
    if value.shape != place.shape or (place.max(initial=0) < 1):
        raise DataError("a design effect needs two documents at least", "documents", "Give each value its document.")
    away = value - value.mean()
    sums: Reals = np.bincount(place, away).astype(np.float64)
    return away, sums
