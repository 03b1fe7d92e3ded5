"""What the paper prints beside what is computed here: Table 1, and the checks of the published files."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as t_distribution

from rbp.core.arrays import check_level
from rbp.evidence import open_source, published
from rbp.paper.wording import dataset_order
from rbp.stats import cells
from rbp.stats.cells import fit_table

Row = tuple[str, str, int, int, float, str]
COLUMNS = ["check", "what", "compared", "agree", "worst", "unit"]


def checks(folder: Path | None = None) -> pd.DataFrame:
    """Every check of the published files: one row each.

    Columns: check (a short key), what (a phrase), compared and agree (how many numbers), worst (the largest
    difference, in `unit`).
    """
    ranks = open_source(folder or "published").table.query("metric == 'neg_log_rbp'")
    rows = [*_overlaps(folder), *_fits(ranks, folder), *_shares(ranks, folder)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _overlaps(folder: Path | None) -> Iterator[Row]:
    """Readings of one quantity in two places; the GPT-2 counts are exact, so they have a row of their own."""
    pairs = published.agreement(folder)
    pairs["relative"] = pairs["difference"].abs() / pairs["first_value"]
    counted = pairs["first"] == "repository"
    for key, what, own in (
        ("two_figures", "−ln RBP_k that two figures show (3, 4, 8a and 9 against 7 and 8a)", pairs[~counted]),
        ("exact_counts", "GPT-2’s exact counts on Wikipedia against figures 3 and 4", pairs[counted]),
    ):
        yield key, what, len(own), int(own["ok"].sum()), float(own["relative"].max()), "relative"


def _fits(ranks: pd.DataFrame, folder: Path | None) -> Iterator[Row]:
    """Fits of the points against Table 1, and against the curves of figure 6."""
    fits = cells.fit_table(ranks[ranks["k"].isin([1, 10, 100])], ["dataset", "metric", "k", "family"])
    printed = beside_printed(fits).dropna(subset="printed_slope")
    agree = printed[["slope_agrees", "r_squared_agrees"]].to_numpy(dtype=bool)
    off = max((printed[name] - printed[f"printed_{name}"]).abs().max() for name in ("slope", "r_squared"))
    yield "table_1", "R² and slopes of Table 1 for k = 1, 10, 100", agree.size, int(agree.sum()), off, "absolute"

    by = ["dataset", "family", "k"]
    curve = published.fit_by_k(folder).merge(cells.fit_table(ranks, by), on=by, suffixes=("_drawn", ""))
    curve = curve[curve["n"] == curve["n"].max()]  # at the other thresholds only four models were published
    off = pd.concat([curve["r_squared"] - curve["r_squared_drawn"], curve["alpha"] + curve["slope"]]).dropna().abs()
    what = "R² and slopes of figure 6, at the k for which all Pythias are published"
    yield "figure_6", what, off.size, int((off <= 2e-6).sum()), float(off.max()), "absolute"


def _shares(ranks: pd.DataFrame, folder: Path | None) -> Iterator[Row]:
    """What shares must obey: the histogram sums to one, RBP_k rises with k, figure 5 was rounded."""
    mass = published.rank_bins(folder).groupby("model")["mass"].sum()
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


CELL = ["dataset", "metric", "k", "family"]

#: printed to three digits: half a unit of the last one, and the rounding of binary fractions
HALF_DIGIT = 0.0005 + 1e-9


def beside_printed(fits: pd.DataFrame, *, everything: bool = False) -> pd.DataFrame:
    """Join fits (`cells.fit_table` by dataset, metric, k and family) with the printed cells of Table 1.

    Adds `slope`, `printed_slope`, `printed_r_squared` (NaN where Table 1 has no such cell), and `slope_agrees`,
    `r_squared_agrees`: whether ours round to the printed digits (missing where either is missing). With
    `everything`, printed cells without a fit of ours are kept too. Rows are in the datasets' order (`dataset_order`).
    """
    printed = published.table1().rename(columns={"slope": "printed_slope", "r_squared": "printed_r_squared"})
    table = fits.merge(printed, on=CELL, how="outer" if everything else "left")
    table["slope"] = -table["alpha"]
    for name in ("slope", "r_squared"):
        off = (table[name] - table[f"printed_{name}"]).abs()
        table[f"{name}_agrees"] = (off <= HALF_DIGIT).astype("boolean").mask(off.isna())
    order = dataset_order(table["dataset"])
    return table.sort_values(CELL, key=lambda c: c.map(order.index) if c.name == "dataset" else c, ignore_index=True)


def recompute(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """All 168 printed cells of Table 1 in its order, each beside our fit of a measurement table where there is one.

    The columns of `beside_printed`, and: `verdict` ("agrees", "differs", "no points"), `reason` (why there is no fit;
    "" elsewhere), `models` (how many the family has), and `implied_low`, `implied_high`, `implied_p`: what the printed
    slope and R² imply with so many models (`implied_by_print`).

    Empty where no cell can be compared.
    """
    cells = beside_printed(fit_table(table, CELL, level=level), everything=True).dropna(subset="printed_slope")
    order = published.table1()[CELL].reset_index(names="place")
    cells = order.merge(cells, on=CELL, validate="one_to_one").sort_values("place", ignore_index=True)
    cells = cells.drop(columns="place")
    both = cells["slope_agrees"] & cells["r_squared_agrees"]
    cells["verdict"] = both.map({True: "agrees", False: "differs"}).astype(object).where(both.notna(), "no points")
    if (cells["verdict"] == "no points").all():
        return cells[:0]
    cells["reason"] = _reasons(cells, table)
    cells["models"] = cells["family"].map(published.models()["family"].value_counts())
    printed = cells[["printed_slope", "printed_r_squared", "models"]].to_numpy(dtype=float)
    implied = [implied_by_print(slope, r_squared, int(n), level=level) for slope, r_squared, n in printed]
    cells[["implied_low", "implied_high", "implied_p"]] = implied
    return cells


def _reasons(cells: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    datasets = set(table["dataset"])
    measured = set(table[["dataset", "metric", "family"]].itertuples(index=False, name=None))
    reasons = []
    for cell in cells.itertuples():
        if cell.verdict != "no points":
            reason = ""
        elif cell.dataset not in datasets:
            reason = "no value of any single model on this dataset"
        elif isinstance(cell.note, str) and cell.note:
            reason = cell.note
        elif (cell.dataset, cell.metric, cell.family) not in measured:
            metric = "cross-entropy" if cell.metric == "cross_entropy" else "−ln RBP_k"
            reason = f"no {metric} of this family’s single models"
        else:
            reason = "no value of single models at this k"
        reasons.append(reason)
    return reasons


def implied_by_print(slope: float, r_squared: float, n: int, *, level: float = 0.95) -> tuple[float, float, float]:
    """The slope's interval and its two-sided p value that a printed slope and R² of n points imply.

    In a straight line through n points, t = slope/se has t² = R²(n − 2)/(1 − R²). The printed digits are rounded, so
    the interval is rough: where R² is printed 0.995, its width is known to about 5%. NaN where R² is printed as 0 or 1.
    """
    check_level(level)
    if not 0 < r_squared < 1:
        return np.nan, np.nan, np.nan
    t = np.sqrt(r_squared * (n - 2) / (1 - r_squared))
    half = abs(slope) / t * t_distribution.ppf((1 + level) / 2, n - 2)
    return slope - half, slope + half, float(2 * t_distribution.sf(t, n - 2))


def with_rounded_shares(table: pd.DataFrame, decimals: int) -> pd.DataFrame:
    """The measurement table as it would be had every RBP_k been rounded to `decimals` before its logarithm."""
    rounded = -np.log(np.round(np.exp(-table["value"]), decimals))
    return table.assign(value=table["value"].where(table["metric"] == "cross_entropy", rounded))
