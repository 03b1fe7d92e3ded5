"""A table as a page shows it: which columns, what they are called, how they are written, and the caption."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rbp.book.page import Format
from rbp.paper.against_print import interval

Column = str | tuple[str, Format]
"""A column of a table, or one and how its values are written."""


def as_shown(
    table: pd.DataFrame,
    columns: Mapping[str, Column],
    caption: str,
    *,
    data: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """What `Page.table` takes, by its names: columns of a table under their labels.

    columns: label → column, in the order shown. data: what is kept as CSV; None: `table`.
    """
    picked = {label: (each, "") if isinstance(each, str) else each for label, each in columns.items()}
    return {
        "table": pd.DataFrame({label: table[column] for label, (column, _) in picked.items()}),
        "caption": caption,
        "formats": {label: how for label, (_, how) in picked.items() if how},
        "data": table if data is None else data,
    }


def intervals(low: "pd.Series[float]", high: "pd.Series[float]") -> "pd.Series[Any]":
    """Each interval as a table shows it; None where there is none."""
    told = [None if pd.isna(a) else interval(a, b) for a, b in zip(low, high, strict=True)]
    return pd.Series(told, low.index, dtype=object)
