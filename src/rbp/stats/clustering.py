"""Tokens of one document are alike: design effects, documents drawn anew, and tests on the same tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import norm

from rbp.core.arrays import Reals, as_ranks
from rbp.core.errors import DataError
from rbp.stats.counting import _level
from rbp.stats.windows import runs


def resampled_means(values: npt.ArrayLike, documents: npt.ArrayLike, *, resamples: int = 2000, seed: int = 0) -> Reals:
    """Means of `values` over corpora drawn anew: whole documents, with replacement; shape (resamples,).

    values: shape (T,), one per token (rank ≤ k or not, −ln p, 1/R); documents: shape (T,), which document each
    is of. Tokens of one document are not independent: this keeps them together, where the binomial variance
    takes every token as a draw of its own. Raises DataError for no values.
    """
    value = np.asarray(values, dtype=np.float64)
    _, index = np.unique(np.asarray(documents), return_inverse=True)
    if not value.size or value.shape != index.shape:
        raise DataError("each value needs its document, and there must be one", "values", "Check them.")
    totals, counts = np.bincount(index, value), np.bincount(index)
    # one at a time: a corpus can have very many documents
    drawn = draws(len(counts), resamples, at_once=1, seed=seed)
    return np.array([times @ totals / (times @ counts) for (times,) in drawn])


def draws(documents: int, resamples: int, *, at_once: int | None = None, seed: int = 0) -> Iterator[Reals]:
    """How often each document is in a corpus drawn anew, with replacement and as large: shapes (at_once, documents).

    at_once: how many corpora at a time (None: all), the last ones perhaps fewer; the draws are the same whichever.
    """
    rng, even, step = np.random.default_rng(seed), np.full(documents, 1 / documents), at_once or resamples
    for first in range(0, resamples, step):
        yield rng.multinomial(documents, even, size=min(step, resamples - first)).astype(np.float64)


def neg_log_rbp_document_interval(
    ranks: npt.ArrayLike,
    documents: npt.ArrayLike,
    k: int,
    level: float = 0.95,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """The interval (low, high) of −ln RBP_k by resampling whole documents (percentiles of `resampled_means`).

    To be read beside `neg_log_rbp_interval`, which takes tokens as independent. Raises as those and `rbp`.
    """
    _level(level)
    shares = resampled_means(as_ranks(ranks) <= k, documents, resamples=resamples, seed=seed)
    with np.errstate(divide="ignore"):
        low, high = -np.log(np.quantile(shares, [(1 + level) / 2, (1 - level) / 2])) + 0.0
    return float(low), float(high)


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


@dataclass(frozen=True)
class Bound:
    """The least that a trend in missed tokens can deviate from none, whatever tokens the models share.

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

    misses: shape (m,), how many tokens each model misses; weights: shape (m,), the contrast, with sum 0. For two
    models and weights (−1, 1) this is McNemar's test with as few shared misses as can be: z² = (b − c)²/(b + c), where
    b + c is at most the sum of the misses. For more models, the variance Σ over tokens of (Σ w·miss)² is largest
    where models of one sign miss the same tokens as far as they can, and models of opposite sign share none: then
    it is the sum of w_i·w_j·min(misses_i, misses_j) over the pairs of one sign. Raises DataError for weights that do
    not sum to 0, or negative misses.
    """
    count, weight = np.asarray(misses, dtype=float), np.asarray(weights, dtype=float)
    if count.shape != weight.shape or abs(weight.sum()) > 1e-9 * np.abs(weight).sum() or (count < 0).any():
        raise DataError("a trend needs one weight for each model, and their sum must be 0", "weights", "Check them.")
    same = np.sign(weight)[:, None] == np.sign(weight)[None, :]
    shared = np.minimum(count[:, None], count[None, :])
    variance = float((same * np.outer(weight, weight) * shared).sum())
    change, sd = float(weight @ count), float(np.sqrt(variance))
    z = change / sd if sd else 0.0
    return Bound(change, sd, z, float(2 * norm.sf(abs(z))), (z / norm.ppf((1 + level) / 2)) ** 2, level)


def log_size_weights(size: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The contrast of a straight line in ln S: its deviations from their mean, scaled to a spread of 1 end to end."""
    x = np.log(np.asarray(size, dtype=float))
    return np.asarray((x - x.mean()) / np.ptp(x), dtype=np.float64)


@dataclass(frozen=True)
class Discordance:
    """McNemar's test of two models on the same tokens: `first_only` and `second_only` count the tokens that one alone
    misses; z takes tokens as independent, z_documents divides it by the root of the design effect."""

    first_only: int
    second_only: int
    both: int
    z: float
    design_effect: float
    z_documents: float


def discordance(first: npt.ArrayLike, second: npt.ArrayLike, documents: npt.ArrayLike) -> Discordance:
    """Compare two models' misses, shape (T,) of booleans each, on the same tokens of `documents`, shape (T,)."""
    one, other = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    b, c = int((one & ~other).sum()), int((other & ~one).sum())
    effect = design_effect(other.astype(float) - one, documents)
    z = (c - b) / np.sqrt(b + c) if b + c else 0.0
    return Discordance(b, c, int((one & other).sum()), float(z), effect, float(z / np.sqrt(effect)))


def autocorrelation(
    hit: npt.ArrayLike, documents: npt.ArrayLike, positions: npt.ArrayLike, lags: Sequence[int]
) -> pd.DataFrame:
    """The correlation of a token's hit with that of the token `lag` places on, in the same stretch of a document.

    hit, documents, positions: shape (T,), a row per token, ordered by document and position. Columns lag, pairs,
    correlation (deviations from the share of hits in all tokens: what documents share is in it, so it stays above 0
    at any lag where documents differ) and within (deviations from the document's own share: dependence beyond that.
    A document's share is made of its own tokens, which pulls this down by about one over its length). NaN where
    there are no pairs. Raises DataError where hits do not vary.
    """
    good = np.asarray(hit, dtype=float)
    if good.size == 0 or good.min() == good.max():
        raise DataError("every token is a hit, or none is: nothing varies", "k", "Choose another k.")
    _, document = np.unique(np.asarray(documents), return_inverse=True)
    own = np.bincount(document, good) / np.bincount(document)
    overall, inside = good - good.mean(), good - own[document]
    variance = overall.var()
    place = runs(np.ones(good.size, dtype=bool), documents, positions)
    rows = []
    for lag in lags:
        later = place[lag:] > lag
        pairs = int(later.sum())
        row: tuple[float, ...] = (lag, pairs, np.nan, np.nan)
        if pairs:
            both = [float((x[lag:] * later) @ x[: len(x) - lag]) / pairs for x in (overall, inside)]
            row = (lag, pairs, both[0] / variance, both[1] / max(float((inside**2).mean()), 1e-300))
        rows.append(row)
    table = pd.DataFrame(rows, columns=["lag", "pairs", "correlation", "within"])
    return table.astype({"lag": "int64", "pairs": "int64"})


def run_counts(
    hit: npt.ArrayLike, documents: npt.ArrayLike, positions: npt.ArrayLike, lengths: Sequence[int]
) -> pd.DataFrame:
    """How many runs of hits are at least so long, beside how many independent tokens of that share would make.

    A run is a longest stretch of hits in a row within a document. Columns length, runs, independent: a stretch of L
    tokens with hit rate π is expected to hold π^m·(1 + (L − m)·(1 − π)) runs of m and more.
    """
    good = np.asarray(hit, dtype=bool)
    share = float(good.mean())
    reached = runs(good, documents, positions)
    place = runs(np.ones_like(good), documents, positions)
    stretches = place[np.append(place[1:] == 1, True)]
    rows = []
    for length in lengths:
        fits = stretches[stretches >= length]
        expected = share**length * float((1 + (fits - length) * (1 - share)).sum())
        rows.append((length, int((reached == length).sum()), expected))
    return pd.DataFrame(rows, columns=["length", "runs", "independent"])
