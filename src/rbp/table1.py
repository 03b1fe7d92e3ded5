"""Our fits beside the R² and the slopes that the paper prints in its Table 1."""

import pandas as pd

from rbp import published
from rbp.figures import dataset_order

CELL = ["dataset", "metric", "k", "family"]

#: printed to three digits: half a unit of the last one, and the rounding of binary fractions
HALF_DIGIT = 0.0005 + 1e-9


def beside_printed(fits: pd.DataFrame, *, everything: bool = False) -> pd.DataFrame:
    """Join fits (`scaling.fit_table` by dataset, metric, k and family) with the printed cells of Table 1.

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


def interval(low: float, high: float, digits: int = 3) -> str:
    """An interval as a table shows it, with true minus signs."""
    return f"[{low:.{digits}f}, {high:.{digits}f}]".replace("-", "−")
