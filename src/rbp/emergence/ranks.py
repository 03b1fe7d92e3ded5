"""What rank stores say of the dependence of tokens: one long table for all models, datasets and thresholds."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from rbp.counting.clustering import design_effect, variance_parts
from rbp.emergence.along import autocorrelation, run_counts
from rbp.emergence.heldout import held_out, summed
from rbp.emergence.windows import window_counts
from rbp.errors import DataError, FitError
from rbp.extraction.reader import RankStore
from rbp.extraction.tables import Ranked
from rbp.metric import Integers, Reals, TieRule, runs

K = (1, 10, 100)
LAGS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200)
LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200)
RESAMPLES = 400
PAIRS = 1000  # the fewest pairs of tokens of which a correlation is shown

Row = tuple[str, float, float, float, float]  # quantity, x, value, low, high
_NONE = float("nan")


def dependence(
    stores: Sequence[RankStore],
    k: Sequence[int],
    rule: TieRule = "paper",
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """All that a chapter shows of hits along documents: dataset, model, family, size, k, quantity, x, value, low, high.

    quantity, with x:
    - correlation, within: `along.autocorrelation`, x the lag, where there are PAIRS.
    - runs, runs independent: `along.run_counts`, x the length.
    - ratio, ratio separate: −ln p(n) over n·(−ln RBP_k), x = n, of overlapping windows (low and high by drawing whole
      documents anew), and of windows that do not overlap.
    - p: success of overlapping windows, x = n, with its interval by documents.
    - shared, design effect: of `counting.clustering`, x missing.
    - gain markov, gain documents, gain both: `heldout.held_out`, nats per token, with intervals by documents.
    A k at which every token is a hit, or none, and a k beyond the vocabulary, are left out.
    """
    parts = []
    for store in stores:
        ranked = Ranked(store, rule)
        for threshold in (each for each in k if each <= store.vocabulary):
            hit = np.asarray(ranked.ranks <= threshold)
            if hit.all() or not hit.any():
                continue
            places = ranked.tokens["document"].to_numpy(), ranked.tokens["position"].to_numpy()
            rows = list(_rows(hit, *places, resamples, level, seed))
            table = pd.DataFrame(rows, columns=["quantity", "x", "value", "low", "high"])
            about: dict[str, Any] = {
                "dataset": store.dataset,
                "model": store.model,
                "family": store.family,
                "size": store.size,
            }
            parts.append(table.assign(**about, k=threshold))
    if not parts:
        raise DataError("no store has hits and misses at these thresholds", "k", "Choose other thresholds.")
    columns = ["dataset", "model", "family", "size", "k", "quantity", "x", "value", "low", "high"]
    return pd.concat(parts, ignore_index=True)[columns]


def _rows(
    hit: np.ndarray, documents: Integers, positions: Integers, resamples: int, level: float, seed: int
) -> Iterator[Row]:
    found = autocorrelation(hit, documents, positions, LAGS)
    for lag, _, correlation, within in found[found["pairs"] >= PAIRS].itertuples(index=False):
        yield "correlation", lag, correlation, _NONE, _NONE
        yield "within", lag, within, _NONE, _NONE
    for length, count, independent in run_counts(hit, documents, positions, LENGTHS).itertuples(index=False):
        yield "runs", length, count, _NONE, _NONE
        yield "runs independent", length, independent, _NONE, _NONE
    yield from _windows(hit, documents, positions, resamples, level, seed)
    yield "shared", _NONE, variance_parts(hit, documents).shared, _NONE, _NONE
    yield "design effect", _NONE, design_effect(hit, documents), _NONE, _NONE
    try:
        gains = held_out(summed(hit, documents, positions))
    except (DataError, FitError):  # too few documents, or too short ones
        return
    for name, gain, low, high in gains[["model", "gain", "low", "high"]].itertuples(index=False):
        yield f"gain {name}", _NONE, gain, low, high


@lru_cache(maxsize=1)  # the same for every model and threshold of a dataset
def _drawn(documents: int, resamples: int, seed: int) -> Reals:
    """How often each document is in a corpus drawn anew, shape (resamples, documents)."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(documents, np.full(documents, 1 / documents), size=resamples).astype(np.float64)


def _windows(
    hit: np.ndarray, documents: Integers, positions: Integers, resamples: int, level: float, seed: int
) -> Iterator[Row]:
    """Window success and its ratio to independence, with intervals from documents drawn anew."""
    _, document = np.unique(documents, return_inverse=True)
    reached, place = runs(hit, documents, positions), runs(np.ones_like(hit), documents, positions)
    lengths = [n for n in LENGTHS if (place >= n).any()]
    count = int(document.max()) + 1
    good = np.column_stack([np.bincount(document[reached >= n], minlength=count) for n in lengths])
    all_ = np.column_stack([np.bincount(document[place >= n], minlength=count) for n in lengths])
    drawn = _drawn(count, resamples, seed)
    n = np.array(lengths, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        p, ps = good.sum(axis=0) / all_.sum(axis=0), (drawn @ good) / (drawn @ all_)
        ratio, ratios = np.log(p) / (n * np.log(p[0])), np.log(ps) / (n * np.log(ps[:, :1]))
    tails = [(1 - level) / 2, (1 + level) / 2]
    for i, length in enumerate(lengths):
        low, high = np.nanquantile(ps[:, i], tails)
        yield "p", length, float(p[i]), float(low), float(high)
        if length > 1 and p[i] > 0:
            finite = np.isfinite(ratios[:, i]).all()  # else a draw without success: the interval has no upper end
            low, high = np.quantile(ratios[:, i], tails) if finite else (_NONE, _NONE)
            yield "ratio", length, float(ratio[i]), float(low), float(high)
    apart = window_counts(hit, documents, positions, lengths[1:], overlapping=False)
    for length, successes, windows in apart.itertuples(index=False):
        if successes:
            separate = np.log(successes / windows) / (length * np.log(p[0]))
            yield "ratio separate", length, float(separate), _NONE, _NONE
