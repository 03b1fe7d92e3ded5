"""What window counts tell beyond their ratio: whole numbers behind shares, runs behind windows, and an error.

Windows overlap: a run of L hits holds L − n + 1 successes of length n. So a thousand successes may be two runs, and
no binomial error holds. But the counts at several lengths give the runs away. With c(n) successes of length n, and
M(n) maximal runs of at least n hits, c(n) is the sum of M(m) over m ≥ n, and M(n) = c(n) − c(n + 1).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp import published
from rbp.counting.recovery import DOCUMENTS, recover_total
from rbp.errors import DataError
from rbp.measurements import load
from rbp.metric import Reals

#: standard deviation of a share read from figure 7 (its axes are linear)
READING_ERROR = 4e-7
_TOKENS = 512  # of a document, by the authors' protocol
_FEWEST = 1000  # the smallest number of windows that is tried


def published_counts() -> pd.DataFrame:
    """All published window successes as whole numbers.

    GPT-2's counts were published. Pythia's shares are read from figure 7; each length's number of windows is found as
    the total of which all its shares are whole parts (`counting.recovery.recover_total`), and the successes follow.
    Columns dataset, model, family, size, k, n, successes, windows, p (the share of the two), basis ("counted" or
    "recovered"). Raises DataError where the shares do not identify the total.
    """
    shares = published.sequence_success()
    totals = {key: _total(rows) for key, rows in shares.groupby(["dataset", "n"])}
    windows = [totals[key] for key in zip(shares["dataset"], shares["n"], strict=True)]
    recovered = shares.assign(windows=windows, basis="recovered")
    recovered["successes"] = np.rint(recovered["p_success"] * recovered["windows"]).astype("int64")
    table = pd.concat([recovered, published.gpt2_window_counts().assign(basis="counted")], ignore_index=True)
    models = published.models().set_index("model")
    table["family"] = table["model"].map(models["family"])
    table["size"] = table["model"].map(models["non_embedding_params"])
    table["p"] = table["successes"] / table["windows"]
    columns = ["dataset", "model", "family", "size", "k", "n", "successes", "windows", "p", "basis"]
    return table[columns].sort_values(["dataset", "family", "size", "k", "n"], ignore_index=True)


def _total(rows: pd.DataFrame) -> int:
    dataset, n = str(rows["dataset"].iloc[0]), int(rows["n"].iloc[0])
    share = rows.loc[rows["p_success"] > 0, "p_success"].to_numpy()
    most = DOCUMENTS[dataset] * (_TOKENS - n)
    found = recover_total(share, np.full(share.size, READING_ERROR), np.arange(_FEWEST, most + 1))
    if not found.identified:
        what = f"the shares of windows of {n} tokens do not tell how many windows there are"
        raise DataError(what, f"sequence_success.csv, {dataset}", "Give successes and windows.")
    return found.tokens


def runs_alive(counts: pd.DataFrame) -> pd.DataFrame:
    """How many runs of hits stand behind the successes: the mean of M(m) from each length to the next.

    `counts` has dataset, model, k, n, successes. M never rises, so at least so many runs reach the first length, and
    at most so many the last. Columns of the cell, n, n_next, successes, runs = (c(n) − c(n_next))/(n_next − n).
    """
    cells = ["dataset", "model", "k"]
    table = counts.sort_values([*cells, "n"], ignore_index=True)
    later = table.groupby(cells)[["n", "successes"]].shift(-1)
    table = table.assign(n_next=later["n"], runs=(table["successes"] - later["successes"]) / (later["n"] - table["n"]))
    table = table.dropna(subset=["runs"]).astype({"n_next": "int64"})
    return table.reset_index(drop=True)


def filled(n: Sequence[int], successes: Sequence[int], longest: int = _TOKENS - 1) -> Reals:
    """c(m) for m = 1 … longest, filled in between the lengths `n` (ascending, from 1) by straight lines in ln c.

    A tail no lighter than a geometric one is then never underestimated between two lengths. After the last length
    with a success c falls straight to 0 at the next one, or goes on as before if there is none.
    """
    length, count = np.asarray(n, dtype=float), np.asarray(successes, dtype=float)
    if length[0] != 1 or (np.diff(length) <= 0).any() or (np.diff(count) > 0).any() or count[0] <= 0:
        raise DataError("lengths must ascend from 1, and successes must not rise", "n, successes", "Check them.")
    every = np.arange(1, longest + 1, dtype=float)
    positive = int((count > 0).sum())
    known_n, known = length[:positive], np.log(count[:positive])
    curve = np.exp(np.interp(every, known_n, known))
    beyond = every > known_n[-1]
    if positive < len(count):
        end = length[positive]
        curve[beyond] = count[positive - 1] * np.clip((end - every[beyond]) / (end - known_n[-1]), 0, None)
    elif positive > 1:
        slope = (known[-1] - known[-2]) / (known_n[-1] - known_n[-2])
        curve[beyond] = np.exp(known[-1] + slope * (every[beyond] - known_n[-1]))
    found: Reals = curve
    return found


def share_error(n: npt.ArrayLike, successes: npt.ArrayLike, windows: npt.ArrayLike) -> Reals:
    """The standard error of each share p(n) = c(n)/windows(n), relatively, from the counts of one model and one k.

    n, successes, windows: shape (m,), with n[0] = 1. The larger of two errors:
    - by runs: a run of L ≥ 0 hits and the miss after it are one draw, of x = max(0, L − n + 1) successes among
      y = L + 1 places, and draws are independent. The variance of the ratio is Σ(x − p·y)²/(Σy)² with p = Σx/Σy; all
      sums follow from c (Σx² = 2·Σ c(m) over m ≥ n, less c(n)). It knows that many successes may be one run, and
      does not know where documents end.
    - by blocks: the binomial error of windows(n)/n windows, as many as do not overlap.
    For independent tokens both are the binomial error at n = 1. What documents share beyond runs is in neither: the
    true error is larger. Infinite where there is no success.
    """
    lengths, count, places = (np.asarray(each, dtype=float) for each in (n, successes, windows))
    curve = filled(lengths.astype(int).tolist(), count.astype(int).tolist())
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
    """`counts` (dataset, model, k, n, successes, windows) with `error`: `share_error`, which is that of ln p."""
    table = counts.sort_values(["dataset", "model", "k", "n"], ignore_index=True)
    parts = []
    for _, rows in table.groupby(["dataset", "model", "k"], sort=False):
        parts.append(pd.Series(share_error(rows["n"], rows["successes"], rows["windows"]), rows.index))
    return table.assign(error=pd.concat(parts))


def window_table(source: str = "published") -> pd.DataFrame:
    """The window counts of a source that `measurements.load` knows, with each model's family and size.

    Columns as `published_counts`, which this is for "published". Shares without counts are left out. Raises DataError
    where none are left.
    """
    if source == "published":
        return published_counts()
    loaded = load(source)
    if loaded.windows is None or loaded.windows["successes"].isna().all():
        remedy = "Give a folder of rank stores, or “published”."
        raise DataError("there are no counts of successful windows", f"measurements {source}", remedy)
    models = loaded.table.drop_duplicates("model").set_index("model")
    table = loaded.windows.dropna(subset=["successes", "windows"]).assign(basis="counted")
    table["family"] = table["model"].map(models["family"])
    table["size"] = table["model"].map(models["size"])
    columns = ["dataset", "model", "family", "size", "k", "n", "successes", "windows", "p", "basis"]
    table = table.astype({"successes": "int64", "windows": "int64"})
    return table[columns].sort_values(["dataset", "family", "size", "k", "n"], ignore_index=True)
