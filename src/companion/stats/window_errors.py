"""Estimates from published counts of windows of n tokens: runs of hits behind them, and the errors of their shares."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.arrays import Reals
from rbp.errors import DataError

#: standard deviation of a share read from figure 7 (its axes are linear)
READING_ERROR = 4e-7
DOCUMENT_TOKENS = 512  # of a document, by the authors' protocol


def runs_alive(counts: pd.DataFrame) -> pd.DataFrame:
    """Compute how many runs of hits stand behind the successes: the mean of M(m) from each length to the next.

    `counts` has dataset, model, k, n, successes. M never rises, so at least so many runs reach the first length, and
    at most so many the last. Columns of the cell, n, n_next, successes, runs = (c(n) − c(n_next))/(n_next − n).
    """
    cells = ["dataset", "model", "k"]
    table = counts.sort_values([*cells, "n"], ignore_index=True)
    later = table.groupby(cells)[["n", "successes"]].shift(-1)
    table = table.assign(n_next=later["n"], runs=(table["successes"] - later["successes"]) / (later["n"] - table["n"]))
    table = table.dropna(subset=["runs"]).astype({"n_next": "int64"})
    return table.reset_index(drop=True)


def fill_gaps(n: Sequence[int], successes: Sequence[int], longest: int = DOCUMENT_TOKENS - 1) -> Reals:
    """Return c(m) for m = 1 … longest, filled in between the lengths `n` (ascending, from 1) by straight lines in ln c.

    A tail no lighter than a geometric one is then never underestimated between two lengths. After the last length
    with a success c falls straight to 0 at the next one, or goes on as before if there is none.
    """
    length, count = np.asarray(n, dtype=float), np.asarray(successes, dtype=float)
    if length[0] != 1 or (np.diff(length) <= 0).any() or (np.diff(count) > 0).any() or count[0] <= 0:
        raise DataError("lengths must ascend from 1, and successes must not rise", "n, successes", "Check them.")
    every = np.arange(1, longest + 1, dtype=float)
    positive = int((count > 0).sum())
    known_n, log_counts = length[:positive], np.log(count[:positive])
    curve: Reals = np.exp(np.interp(every, known_n, log_counts))
    beyond = every > known_n[-1]
    if positive < len(count):
        end = length[positive]
        curve[beyond] = count[positive - 1] * np.clip((end - every[beyond]) / (end - known_n[-1]), 0, None)
    elif positive > 1:
        slope = (log_counts[-1] - log_counts[-2]) / (known_n[-1] - known_n[-2])
        curve[beyond] = np.exp(log_counts[-1] + slope * (every[beyond] - known_n[-1]))
    return curve


def share_error(n: npt.ArrayLike, successes: npt.ArrayLike, windows: npt.ArrayLike) -> Reals:
    """Return the relative standard error of each share p(n) = c(n)/windows(n), from one model's counts at one k.

    n, successes, windows: shape (m,), with n[0] = 1. The larger of two: that of runs of hits taken as independent
    draws, and the binomial error of the windows/n windows that do not overlap. What documents share beyond runs is in
    neither. Infinite without a success.
    """
    lengths, count, places = (np.asarray(array, dtype=float) for array in (n, successes, windows))
    curve = fill_gaps(lengths.astype(int).tolist(), count.astype(int).tolist())
    after = np.cumsum(curve[::-1])[::-1]  # Σ c(m) over m ≥ n
    tokens = places[0]
    square_y = (2 * after[0] - count[0]) + 2 * count[0] + (tokens - count[0])  # Σ(L + 1)²
    with np.errstate(divide="ignore", invalid="ignore"):
        square_x = 2 * after[lengths.astype(int) - 1] - count
        p = count / tokens
        total = square_x - 2 * p * (square_x + lengths * count) + p**2 * square_y
        runs = np.sqrt(np.maximum(total, 0)) / count
        blocks = np.sqrt((1 - count / places) * lengths / count)
    return np.where(count > 0, np.maximum(runs, blocks), np.inf).astype(np.float64)


def with_error(counts: pd.DataFrame) -> pd.DataFrame:
    """Add to `counts` (dataset, model, k, n, successes, windows) `error`: `share_error`, the error of ln p."""
    table = counts.sort_values(["dataset", "model", "k", "n"], ignore_index=True)
    parts = []
    for _, rows in table.groupby(["dataset", "model", "k"], sort=False):
        parts.append(pd.Series(share_error(rows["n"], rows["successes"], rows["windows"]), rows.index))
    return table.assign(error=pd.concat(parts))
