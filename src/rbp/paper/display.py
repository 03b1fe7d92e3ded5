"""A table of an analysis as a page shows it: its columns by their labels, its numbers in their formats."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rbp.paper.wording import dataset_label, dataset_order, model_label

Format = str | Callable[[Any], str]
Column = str | tuple[str, Format]
"""A column's label, or its label and its format."""

Columns = Mapping[str | tuple[str, ...], Column]
"""The columns of a table in their order, each by its name, or by several names whose values are written into one."""

LABELLED = {"dataset": dataset_label, "model": model_label}
INTERVAL, INTERVAL_4, INTERVAL_1 = "[{:.3f}, {:.3f}]", "[{:.4f}, {:.4f}]", "[{:+.1f}, {:+.1f}]"


def shown(
    rows: pd.DataFrame, columns: Columns, *, caption: str, data: pd.DataFrame | None = None, ranked: bool = False
) -> dict[str, Any]:
    """What `Page.table` takes besides its name: `table`, `caption`, `formats`, and `data`, the table to download.

    Several columns are written into one by a common format, such as INTERVAL, or as a dash where one is missing.
    Datasets and models have their labels, and datasets come in the book's order, unless the rows are `ranked` by
    something else. The download is `rows` if no other table is given.
    """
    download = rows if data is None else data
    if "dataset" in columns and not ranked:
        rows = _by_dataset(rows, list(columns)[: list(columns).index("dataset")])
    table: dict[str, Any] = {}
    formats: dict[str, Format] = {}
    for name, column in columns.items():
        label, how = (column, None) if isinstance(column, str) else column
        if isinstance(name, tuple):
            table[label] = [written(str(how), values) for values in rows[list(name)].itertuples(index=False)]
            continue
        table[label] = rows[name].map(LABELLED[name]) if name in LABELLED else rows[name]
        if how is not None:
            formats[label] = how
    return {
        "table": pd.DataFrame(table).reset_index(drop=True),
        "caption": caption,
        "formats": formats,
        "data": download,
    }


def _by_dataset(rows: pd.DataFrame, before: Sequence[str | tuple[str, ...]]) -> pd.DataFrame:
    """The rows with their datasets in the book's order, within each run of rows that agree in the columns before."""
    outer = rows[[name for each in before for name in ([each] if isinstance(each, str) else each)]].astype(str)
    run = (outer != outer.shift()).any(axis=1).cumsum()
    place = rows["dataset"].map(dataset_order(rows["dataset"]).index)
    return rows.iloc[np.lexsort((place, run))]


def written(how: str, values: tuple[Any, ...]) -> str:
    """Several values in one text, with true minus signs; a dash where one is missing."""
    return "–" if any(map(pd.isna, values)) else re.sub(r"(?<!\w)-(?=\d)", "−", how.format(*values))
