"""Intervals by documents: leave each document out in turn, then Student's t.

Tokens of one document are alike, so documents are the units: they are taken as drawn from many, and a statistic is
computed of all of them and of all but each. This jackknife was chosen among seven kinds by how often they cover what
they should on the ladder's own documents (data/ladder/coverage.csv). Other units, such as sizes of models, are left
out alike. Nothing is drawn: the same sums give the same interval. `independent_units` chooses those of ranked tokens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    total = unit_sums.sum(axis=0, keepdims=True)
    with np.errstate(invalid="ignore"):  # ∞ − ∞: without a document of infinite loss nothing is known
        return np.concatenate([total, total - unit_sums])


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


def means_with_errors(columns: Mapping[str, npt.ArrayLike], documents: npt.ArrayLike) -> dict[str, tuple[float, float]]:
    """Compute the mean of each column over all tokens, and its standard error by documents, by the columns' names.

    columns: shape (T,) each; documents: of each token, shape (T,). The error is NaN where there is one document alone.
    """
    values = np.column_stack([*columns.values(), np.ones(np.size(documents))])
    sums = without_each(document_sums(values, documents))
    with np.errstate(invalid="ignore"):  # without the only document there is none
        means = sums[:, :-1] / sums[:, -1:]
    return dict(zip(columns, zip(means[0].tolist(), np.sqrt(variance(means)).tolist(), strict=True), strict=True))


def degrees_of_freedom(tokens: npt.ArrayLike) -> float:
    """Return those of units of n tokens: (Σn)²/Σn² − 1, which is D − 1 for D units of equal length.

    tokens: n of each unit, shape (D,). Satterthwaite's number, for tokens that vary alike.
    """
    sizes = np.asarray(tokens, dtype=np.float64)
    return float(sizes.sum() ** 2 / (sizes**2).sum() - 1)


def interval(values: npt.ArrayLike, df: float, *, level: float = 0.95) -> Interval:
    """Return the interval of confidence `level` of each statistic: shape (…).

    values: shape (1 + D, …), of all units and of all but each, such as functions of `without_each`. Best on a scale
    where errors are alike on both sides: a logarithm. Student's t of `df` degrees of freedom: `degrees_of_freedom` of
    documents, D − 1 of units that weigh alike. NaN for a single unit, where a value is not finite (one document alone
    decides there whether the statistic exists), and where no unit changes the statistic: that is no proof that none
    would.
    """
    every = np.asarray(values, dtype=np.float64)
    units = len(every) - 1
    if units < 2:
        return student(every[0], np.full(every.shape[1:], np.nan)[()], 1, level=level)
    spread = variance(every)
    return student(every[0], np.where(spread > 0, spread, np.nan)[()], df, level=level)


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
    return np.column_stack([np.bincount(place, weights) for weights in column.T])


def firsts(groups: npt.NDArray[Any]) -> Integers | None:
    """Return where each group begins, if each stands together, as documents do in a store."""
    first = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    names = groups[first]
    return first if (names[1:] > names[:-1]).all() or len(np.unique(names)) == len(names) else None


FEW = 2  # documents, by their effective number: fewer have no interval that anyone can use
USUAL = 8  # below so many, by their effective number, intervals by documents are wide, and it is said
BLOCK = 1024  # tokens: within long documents the mean drifts over hundreds of tokens, so shorter blocks cover less
BLOCKS = 4  # at least: of a shorter text, they are shorter
SAME = 1e-3  # nats by which −ln p of one prediction may differ between two rows of a batch


@dataclass(frozen=True)
class Units:
    """The units of ranked tokens, for intervals (`independent_units`).

    once: which tokens count, shape (T,); unit: of each of these, its unit; documents: how many hold them; effective:
    how many units of equal length would tell as much, (Σn)²/Σn² for units of n tokens; block: the tokens of a block,
    or None where documents are the units.
    """

    once: npt.NDArray[np.bool_]
    unit: Integers
    documents: int
    effective: float
    block: int | None

    @property
    def df(self) -> float:
        """Return the `degrees_of_freedom` of the units."""
        return self.effective - 1

    @property
    def kind(self) -> str:
        """Return what the units are, in words."""
        return f"blocks of {self.block:,} tokens" if self.block else "document"

    def interval(self, statistic: Callable[[Reals], Any], columns: npt.ArrayLike, *, level: float = 0.95) -> Interval:
        """Return the interval of a statistic of sums over tokens: of all of them, its error of those that count.

        columns: what is summed, of all tokens, shape (T, q); statistic: of sums, shape (…, q); shape (…).
        """
        every = np.asarray(columns, dtype=np.float64)
        sums = without_each(document_sums(every[self.once], self.unit))
        sums[0] = every.sum(axis=0)
        return interval(statistic(sums), self.df, level=level)

    @property
    def repeats(self) -> str:
        """Say how many tokens repeat an earlier document's beginning; "" where none does."""
        count = int((~self.once).sum())
        return f"{count:,} of {len(self.once):,} tokens repeat the beginning of an earlier document" if count else ""

    @property
    def notes(self) -> list[str]:
        """Say why the units are blocks, or few, in a sentence; none elsewhere."""
        if self.block:
            few = "there is 1 document" if self.documents == 1 else "one document has most of the tokens"
            return [f"As {few}, intervals are by {self.kind}: they hold for more of this text, not for others."]
        if self.effective < USUAL:
            few = f"The {self.documents} documents tell as much as {self.effective:.1f} of equal length"
            return [f"{few}: intervals are wide."]
        return []


def independent_units(tokens: pd.DataFrame) -> Units:
    """Choose the units of intervals for a store's tokens (`RankStore.ranks`): documents, or blocks of few documents.

    A token that repeats an earlier document's, with all tokens before it, is the same prediction of the same event, and
    counts once. Fewer than `FEW` documents, by their effective number, are cut into blocks of about `BLOCK` tokens.
    """
    once = ~repeated(tokens)
    place, _ = pd.factorize(tokens["document"].to_numpy()[once])
    sizes, block = np.bincount(place), None
    if degrees_of_freedom(sizes) + 1 < FEW:
        block = max(1, min(BLOCK, sizes.sum() // BLOCKS))
        pieces = np.maximum(1, sizes // block)  # of each document, of equal length
        within = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        first = np.cumsum(pieces) - pieces
        place = first[place] + within * pieces[place] // sizes[place]
    return Units(once, place, len(sizes), degrees_of_freedom(np.bincount(place)) + 1, block)


def repeated(tokens: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Find the tokens whose document began as an earlier one, up to and with this token: shape (T,).

    tokens: as `RankStore.ranks`. A store lacks the first token of a document, which nothing precedes: it is taken to be
    the same where the second one is, with the same −ln p to `SAME`.
    """
    document = pd.factorize(tokens["document"])[0]
    begins = np.flatnonzero(np.diff(document, prepend=-1))
    first = tokens.iloc[begins]
    order = np.lexsort([first["nll"], first["position"], first["token"]])
    ranked = first.iloc[order]
    new = (ranked[["token", "position"]].diff() != 0).any(axis=1) | ~(ranked["nll"].diff() <= SAME)
    opening = np.empty(len(order), dtype=np.uint64)
    opening[order] = new.cumsum()
    # A hash of all that was read: sums of 64 random bits of each place, which wrap; two of 10⁶ texts agree by chance
    # with a probability of 10⁻⁸.
    with np.errstate(over="ignore"):
        bits = _mixed(tokens["position"].to_numpy(np.uint64) << np.uint64(32) | tokens["token"].to_numpy(np.uint64))
        read = np.cumsum(bits)
        read -= (read[begins] - bits[begins])[document]
        read += _mixed(opening)[document]
    return pd.Series(read).duplicated().to_numpy()


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread numbers over 64 bits (SplitMix64's finalizer: Steele, Lea and Flood 2014)."""
    bits = numbers + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def mean(totals: Any) -> Any:
    """Return the mean of a column from totals (…, (the column's, tokens))."""
    return totals[..., 0] / totals[..., 1]


def log_neg_log_share(totals: Any) -> Any:
    """Return ln(−ln p) with p = hits/tokens, from totals (…, (hits, tokens)); −inf where all tokens are hits."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(-np.log(mean(totals)))


def neg_log_rbp_document_interval(
    ranks: npt.ArrayLike, units: Units, k: int, level: float = 0.95
) -> tuple[float, float]:
    """Return the interval (low, high) of −ln RBP_k by its units, from `interval` of its logarithm.

    To be read beside `neg_log_rbp_interval`, which takes tokens as independent. NaN for a single unit, where all ranks
    are hits or none is, and where all misses (or hits) lie in one unit. Raises as that and `as_ranks`.
    """
    hit = as_ranks(ranks) <= k
    _, low, high = units.interval(log_neg_log_share, np.column_stack([hit, np.ones(hit.size)]), level=level)
    return float(np.exp(low)), float(np.exp(high))
