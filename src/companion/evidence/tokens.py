"""The numbers of tokens and windows behind the published points, with the evidence for each number.

A family shares one tokenizer, so its models share N on a dataset. The recovery itself is `companion.stats.recovery`;
here it is applied to a dataset and a family. The readings include the shares of figure 5, which were rounded to six
decimals before plotting. `rbp.laws.counting` has the effect of counting on the points.
"""

from collections.abc import Collection
from functools import partial

import numpy as np
import pandas as pd

from companion.evidence import published
from companion.execute.steps import step
from companion.stats import recovery, window_errors
from rbp.errors import DataError
from rbp.measurements import open_source
from rbp.measurements.parts import WINDOWS
from rbp.measurements.sources import Source

#: what the paper's appendix A states of every point
STATED = 500_000
CELL = ["dataset", "family"]

_EVIDENCE = [*CELL, "tokens", "exact", "basis", "bound", "readings", "log_likelihood", "posterior", "gap"]

_FEWEST = 1000  # the smallest number of tokens, or of windows, that a recovery considers
_BIN_ERROR = 2e-6  # relative standard deviation of a bin's mass, read from figure 8c
_ROUNDING = 1e-6 / np.sqrt(12)  # standard deviation of a rounding to six decimals


def recovered_tokens(cells: Collection[tuple[str, str]] | None = None) -> pd.DataFrame:
    """Recover the number of tokens behind the published points of each dataset and family, with its certainty.

    `cells`: datasets and families; None means all. Columns dataset, family; tokens (the most likely number); exact (the
    repository's own count, which takes no part in the recovery); basis ("counted", "recovered", or "likely" where
    `Recovery.identified` is false); bound (the most that the protocol allows); readings, log_likelihood,
    posterior (of `recovery.Recovery`); gap (log likelihood less the best number's of at least STATED).
    """
    families = published.models().set_index("model")["family"]
    table = published.rbp()
    table["family"] = table["model"].map(families)
    counted = published.gpt2_window_counts().query("n == 1")
    exact = counted.assign(family=counted["model"].map(families)).groupby(CELL)["windows"].first()
    rows = []
    for (dataset, family), points in table.groupby(CELL, sort=True):
        cell = (str(dataset), str(family))
        if cells is not None and cell not in cells:
            continue
        share = np.exp(-points["neg_log_rbp"].to_numpy())
        rounded = _ROUNDING * (points["source"] == "figure 5").to_numpy()
        error = np.hypot(points["neg_log_rbp"].to_numpy() * share * recovery.READING_ERROR, rounded)
        bound = recovery.protocol_bound(cell[0])
        best = recovery.recover_total(share, error, np.arange(_FEWEST, bound + 1))
        gap = np.nan
        if bound > STATED:
            enough = recovery.recover_total(share, error, np.arange(STATED, bound + 1))
            gap = best.log_likelihood - enough.log_likelihood
        row = {"dataset": cell[0], "family": cell[1], "tokens": best.tokens, "exact": exact.get(cell, pd.NA)}
        row["basis"] = "counted" if cell in exact else "recovered" if best.identified else "likely"
        row |= {"bound": bound, "readings": best.readings, "log_likelihood": best.log_likelihood}
        rows.append(row | {"posterior": best.posterior, "gap": gap})
    return pd.DataFrame(rows, columns=_EVIDENCE).astype({"exact": "Int64"})


def published_tokens(table: pd.DataFrame) -> pd.DataFrame | None:
    """Return `recovered_tokens` of all cells, by the step; None for others' points."""
    return _recovered() if table["source"].isin(published.SOURCES).any() else None


@step(
    "published_tokens",
    reads=["data/published/models.csv", "data/published/rbp.csv", "data/published/gpt2_window_counts.csv"],
    seconds=3,
)
def _recovered() -> pd.DataFrame:
    return recovered_tokens()


def tokens_of_bins() -> pd.DataFrame:
    """Recover the number of tokens of each model of figure 8c from its rank histogram.

    The histogram's masses are whole numbers over M, the tokens of rank 2 or more that it holds; M is found as N is,
    and M/(1 − RBP_1) is N. Columns dataset, model, ranked_lower (M), identified, tokens (M/(1 − RBP_1), no whole
    number where the histogram left out a few tokens).
    """
    first = published.all_readings().query("k == 1").drop_duplicates(["dataset", "model"])
    neg_log_rbp = first.set_index(["dataset", "model"])["value"]
    rows = []
    for (dataset, model), bins in published.rank_bins().groupby(["dataset", "model"], sort=True):
        cell = (str(dataset), str(model))
        mass = bins["mass"] / bins["mass"].sum()
        lower = -np.expm1(-neg_log_rbp[cell])  # the share of tokens with rank 2 or more
        most = int(recovery.protocol_bound(cell[0]) * lower)
        best = recovery.recover_total(mass, mass * _BIN_ERROR, np.arange(most // 5, most + 1))
        total = best.tokens / lower
        rows.append((*cell, best.tokens, best.identified, total))
    return pd.DataFrame(rows, columns=["dataset", "model", "ranked_lower", "identified", "tokens"])


def tokens_behind(table: pd.DataFrame, recovered: pd.DataFrame | None = None, *, likely: bool = False) -> pd.DataFrame:
    """Find how many tokens are behind the −ln RBP_k of each dataset and family: dataset, family, tokens, basis.

    `table` is a measurement table. What it states comes first (basis "counted"). For points that the authors
    published the number is recovered from their shares (`recovered_tokens`, made here if not given): basis
    "recovered", or, where the shares do not identify it, "at most" with the bound of the authors' protocol, or, with
    `likely`, "likely" with the most likely number. Cells of which nothing is known, or where the table states several
    numbers, are missing.
    """
    stated = table.dropna(subset="tokens").groupby(CELL, as_index=False)["tokens"].agg(["first", "nunique"])
    counted = stated[stated["nunique"] == 1].rename(columns={"first": "tokens"}).assign(basis="counted")
    authors = table.loc[table["source"].isin(published.SOURCES), CELL].drop_duplicates()
    cells = set(authors.itertuples(index=False, name=None)) - set(stated[CELL].itertuples(index=False, name=None))
    totals = recovered_tokens(cells) if recovered is None else recovered
    totals = totals[pd.MultiIndex.from_frame(totals[CELL]).isin(cells)]
    if not likely:
        unsure = totals["basis"] == "likely"
        totals = totals.assign(
            tokens=totals["tokens"].mask(unsure, totals["bound"]), basis=totals["basis"].mask(unsure, "at most")
        )
    columns = [*CELL, "tokens", "basis"]
    both: pd.DataFrame = pd.concat([counted[columns], totals[columns]]).sort_values(CELL, ignore_index=True)
    return both.astype({"tokens": "Int64", "dataset": "str", "family": "str", "basis": "str"})


def known_tokens(points: pd.DataFrame) -> "pd.Series[float]":
    """Return how many tokens each of n rows of a measurement table was measured on; NaN where unknown.

    What a row states comes first; for the authors' points, what `recovered_tokens` counted or identified.
    """
    of_authors = points["source"].isin(published.SOURCES)
    behind = tokens_behind(points[of_authors]).query("basis != 'at most'").set_index(CELL)["tokens"]
    cells = pd.MultiIndex.from_frame(points[CELL])
    counts = pd.Series(behind.reindex(cells).to_numpy(dtype=float, na_value=np.nan), points.index)
    return points["tokens"].astype("Float64").astype(float).fillna(counts.where(of_authors))


def published_windows() -> pd.DataFrame:
    """Return all published window successes as whole numbers.

    GPT-2's counts were published. Pythia's shares are read from figure 7; each length's number of windows is found as
    the total of which all its shares are whole parts (`recovery.recover_total`), and the successes follow.
    Columns WINDOWS: p is the share of the two, basis "counted" or "recovered". Raises DataError where the shares do not
    identify the total.
    """
    shares = published.sequence_success()
    totals = {key: _windows(rows) for key, rows in shares.groupby(["dataset", "n"])}
    behind = [totals[key] for key in zip(shares["dataset"], shares["n"], strict=True)]
    recovered = shares.assign(windows=behind, basis="recovered")
    recovered["successes"] = np.rint(recovered["p_success"] * recovered["windows"]).astype("int64")
    table = pd.concat([recovered, published.gpt2_window_counts().assign(basis="counted")], ignore_index=True)
    models = published.models().set_index("model")
    table["family"] = table["model"].map(models["family"])
    table["size"] = table["model"].map(models["non_embedding_params"])
    table["p"] = table["successes"] / table["windows"]
    return table[WINDOWS]


@step(
    "published_windows",
    of=partial(open_source, "published"),
    reads=[
        "data/published/models.csv",
        "data/published/sequence_success.csv",
        "data/published/gpt2_window_counts.csv",
    ],
    seconds=2,
)
def windows_of(source: Source) -> pd.DataFrame:
    """Return the source's `windows`: counted, or with totals that are recovered."""
    return source.windows


def _windows(rows: pd.DataFrame) -> int:
    dataset, n = str(rows["dataset"].iloc[0]), int(rows["n"].iloc[0])
    share = rows.loc[rows["p_success"] > 0, "p_success"].to_numpy()
    most = recovery.DOCUMENTS[dataset] * (window_errors.DOCUMENT_TOKENS - n)
    best = recovery.recover_total(share, np.full(share.size, window_errors.READING_ERROR), np.arange(_FEWEST, most + 1))
    if not best.identified:
        fault = f"the shares of windows of {n} tokens do not tell how many windows there are"
        raise DataError(fault, f"sequence_success.csv, {dataset}", "Give successes and windows.")
    return best.tokens
