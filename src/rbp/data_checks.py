"""The checks that the README of the published data reports, run again on the files."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from rbp import measurements, published, readings, scaling
from rbp.table1 import beside_printed

Row = tuple[str, str, int, int, float, str]
COLUMNS = ["check", "what", "compared", "agree", "worst", "unit"]


def checks(folder: Path | None = None) -> pd.DataFrame:
    """Every check of the published files: one row each.

    Columns: check (a short key), what (a phrase), compared and agree (how many numbers), worst (the largest
    difference, in `unit`).
    """
    ranks = measurements.load(folder or "published").table.query("metric == 'neg_log_rbp'")
    rows = [*_overlaps(folder), *_fits(ranks, folder), *_shares(ranks, folder)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _overlaps(folder: Path | None) -> Iterator[Row]:
    """Readings of one quantity in two places; the GPT-2 counts are exact, so they have a row of their own."""
    pairs = measurements.agreement(folder)
    pairs["relative"] = pairs["difference"].abs() / pairs["first_value"]
    counted = pairs["first"] == "repository"
    for key, what, own in (
        ("two_figures", "−ln RBP_k that two figures show (3, 4, 8a and 9 against 7 and 8a)", pairs[~counted]),
        ("exact_counts", "GPT-2’s exact counts on Wikipedia against figures 3 and 4", pairs[counted]),
    ):
        yield key, what, len(own), int(own["ok"].sum()), float(own["relative"].max()), "relative"


def _fits(ranks: pd.DataFrame, folder: Path | None) -> Iterator[Row]:
    """Fits of the points against Table 1, and against the curves of figure 6."""
    fits = scaling.fit_table(ranks[ranks["k"].isin([1, 10, 100])], ["dataset", "metric", "k", "family"])
    printed = beside_printed(fits).dropna(subset="printed_slope")
    agree = printed[["slope_agrees", "r_squared_agrees"]].to_numpy(dtype=bool)
    off = max((printed[name] - printed[f"printed_{name}"]).abs().max() for name in ("slope", "r_squared"))
    yield "table_1", "R² and slopes of Table 1 for k = 1, 10, 100", agree.size, int(agree.sum()), off, "absolute"

    by = ["dataset", "family", "k"]
    curve = published.fit_by_k(folder).merge(scaling.fit_table(ranks, by), on=by, suffixes=("_drawn", ""))
    curve = curve[curve["n"] == curve["n"].max()]  # at the other thresholds only four models were published
    off = pd.concat([curve["r_squared"] - curve["r_squared_drawn"], curve["alpha"] + curve["slope"]]).dropna().abs()
    what = "R² and slopes of figure 6, at the k for which all Pythias are published"
    yield "figure_6", what, off.size, int((off <= 2e-6).sum()), float(off.max()), "absolute"


def _shares(ranks: pd.DataFrame, folder: Path | None) -> Iterator[Row]:
    """What shares must obey: the histogram sums to one, RBP_k rises with k, figure 5 was rounded."""
    mass = readings.rank_bins(folder).groupby("model")["mass"].sum()
    off = (mass - 1).abs()
    what = "bin masses of figure 8c sum to 1 over ranks 2 and up"
    yield "bins", what, off.size, int((off <= 1e-5).sum()), float(off.max()), "absolute"

    step = ranks.sort_values("k").groupby(["dataset", "model"])["value"].diff().dropna()
    rise = max(float(step.max()), 0.0)
    what = "−ln RBP_k never rises from one k to the next"
    yield "monotone", what, step.size, int((step <= 0).sum()), rise, "absolute"

    figure_5 = published.rbp(folder).query("source == 'figure 5'")
    scaled = np.exp(-figure_5["neg_log_rbp"]) * 1e6
    off = (scaled - scaled.round()).abs()
    close = int((off <= 0.05).sum())
    yield "figure_5", "RBP_k of figure 5 are whole millionths", off.size, close, float(off.max()), "millionths"
