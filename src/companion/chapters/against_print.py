"""Table 1 as the paper prints it, beside what is computed here."""

import numpy as np
import pandas as pd
from scipy.stats import t as t_distribution

from companion.evidence import published
from rbp.arrays import check_level
from rbp.figures.wording import dataset_order
from rbp.laws.table import fit_table

CELL = ["dataset", "metric", "k", "family"]

#: printed to three digits: half a unit of the last one, and the rounding of binary fractions
HALF_DIGIT = 0.0005 + 1e-9


def beside_printed(fits: pd.DataFrame, *, everything: bool = False) -> pd.DataFrame:
    """Join fits (`fit_table` by dataset, metric, k and family) with the printed cells of Table 1.

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

    The columns of `beside_printed`, and: `verdict` ("agrees", "differs", "no points"), `models` (how many the family
    has), and `implied_low`, `implied_high`, `implied_p`: what the printed slope and R² imply with so many models
    (`implied_by_print`).

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
    cells["models"] = cells["family"].map(published.models()["family"].value_counts())
    printed = cells[["printed_slope", "printed_r_squared", "models"]].to_numpy(dtype=float)
    implied = [implied_by_print(slope, r_squared, int(n), level=level) for slope, r_squared, n in printed]
    cells[["implied_low", "implied_high", "implied_p"]] = implied
    return cells


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
