"""Format a table of an analysis for a page: its columns by their labels, its numbers in their formats."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rbp.figures.wording import dataset_label, dataset_order, family_label, model_label

Format = str | Callable[[Any], str]
Column = str | tuple[str, Format]
"""A column's label, or its label and its format."""

Columns = Mapping[str | tuple[str, ...], Column]
"""The columns of a table in their order, each by its name, or by several names whose values are written into one."""

LABELLED = {"dataset": dataset_label, "family": family_label, "model": model_label}
INTERVAL = "[{:.3f}, {:.3f}]"


def shown(
    rows: pd.DataFrame, columns: Columns, *, caption: str = "", data: pd.DataFrame | None = None, ranked: bool = False
) -> dict[str, Any]:
    """Make arguments of `Page.table`: `table`, `formats`, `data` (the download), and `caption`, if it is given here.

    Several columns are written into one by a common format, such as INTERVAL, or as a dash where one is missing.
    Datasets, families and models have their labels. Datasets come in the book's order, unless rows are `ranked` by
    something else. The download is `rows` if no other table is given.
    """
    download = rows if data is None else data
    places = [
        i for i, name in enumerate(columns) if name == "dataset" or (isinstance(name, tuple) and "dataset" in name)
    ]
    if places and not ranked:
        rows = _by_dataset(rows, list(columns)[: places[0]])
    table: dict[str, Any] = {}
    formats: dict[str, Format] = {}
    for name, column in columns.items():
        label, how = (column, None) if isinstance(column, str) else column
        if isinstance(name, tuple):
            parts = [_labelled(rows[column_name]) for column_name in name]
            table[label] = [written(str(how), values) for values in zip(*parts, strict=True)]
            continue
        table[label] = _labelled(rows[name])
        if how is not None:
            formats[label] = how
    made = {"table": pd.DataFrame(table).reset_index(drop=True), "formats": formats, "data": download}
    return made | ({"caption": caption} if caption else {})


def _labelled(column: pd.Series) -> pd.Series:
    return column.map(LABELLED[str(column.name)]) if column.name in LABELLED else column


def _by_dataset(rows: pd.DataFrame, before: Sequence[str | tuple[str, ...]]) -> pd.DataFrame:
    """Sort rows by the book's order of datasets, within each run of rows that agree in the columns before."""
    outer = rows[[name for entry in before for name in ([entry] if isinstance(entry, str) else entry)]].astype(str)
    run = (outer != outer.shift()).any(axis=1).cumsum()
    place = rows["dataset"].map(dataset_order(rows["dataset"]).index)
    return rows.iloc[np.lexsort((place, run))]


def written(how: str, values: tuple[Any, ...]) -> str:
    """Format several values in one text, with true minus signs; a dash where one is missing."""
    return "–" if any(map(pd.isna, values)) else re.sub(r"(?<!\w)-(?=\d)", "−", how.format(*values))


def _cell(value: Any, how: Format | None) -> str:
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "–"
    if how is None:
        return str(value)
    text = how.format(value) if isinstance(how, str) else how(value)
    return re.sub(r"^-(?=\d)", "−", text)


def html_table(table: pd.DataFrame, formats: Mapping[str, Format], rows: int | None = None) -> str:
    """Write a table as HTML, as `Page.table` shows it: numbers right, words left, and only long texts wrap.

    It scrolls within itself. On a phone, rows with a long text become cards. Cells stand apart in the text that search
    reads. What follows the first `rows` is folded, if that is more than the line which unfolds it.
    """
    cells = {column: [_cell(value, formats.get(str(column))) for value in table[column]] for column in table}
    kinds = {}
    for column, texts in cells.items():
        longest = max(map(len, texts), default=0)
        kinds[column] = "num" if pd.api.types.is_numeric_dtype(table[column]) else "long" if longest > 32 else "txt"
    heads = {column: html.escape(str(column)) for column in table}
    head = " ".join(f'<th class="{kinds[column]}" scope="col">{heads[column]}</th>' for column in table)
    lines = [
        "<tr>"
        + " ".join(f'<td class="{kinds[c]}" data-label="{heads[c]}">{html.escape(cells[c][i])}</td>' for c in table)
        + "</tr>"
        for i in range(len(table))
    ]
    seen = rows if rows is not None and len(lines) > rows + 1 else len(lines)
    body, rest = "\n".join(lines[:seen]), "\n".join(lines[seen:])
    cards = " rbp-cards" if "long" in kinds.values() else ""
    folded = f'<tbody class="rbp-rest">{rest}</tbody>' if rest else ""
    unfold = f'<details class="rbp-more"><summary>All {len(lines)} rows</summary></details>' if rest else ""
    return (
        f'<div class="rbp-scroll" tabindex="0"><table class="rbp-table{cards}"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody>{folded}</table></div>{unfold}"
    )


# ── A text coloured by rank

#: the upper end of each class of ranks, its name, and how strongly it is coloured: the page's ink reads on each
CLASSES = ((1, "1", 0.0), (10, "2–10", 0.14), (100, "11–100", 0.3), (np.inf, "above 100", 0.5))
COLOUR = "213, 94, 0"
_TOKEN = "display:inline-block;text-align:center;border-radius:3px;margin:1px 0;padding:0 1px;line-height:1.25"  # noqa: S105
_RANK = "display:block;font-size:0.62em;opacity:0.8;line-height:1.1"


def coloured_text(pieces: pd.DataFrame) -> str:
    """Write a text as HTML, its tokens (columns text, rank) coloured by rank, each with its rank beneath.

    It wraps like any text, and takes the page's ink, so that it reads on a phone and in the dark.
    """
    spans = [_token(text, rank) for text, rank in pieces[["text", "rank"]].itertuples(index=False)]
    key = " ".join(f'<span style="{_TOKEN};{shade(top)}">&nbsp;{name}&nbsp;</span>' for top, name, _ in CLASSES)
    return (
        f'<p style="font-size:0.92em">Rank of the token that really comes: {key}</p>'
        f'<div class="rbp-ranked" style="font-family:monospace;font-size:0.95em;overflow-wrap:anywhere">'
        f"{''.join(spans)}</div>"
    )


def _token(text: str, rank: float) -> str:
    lines = text.count("\n")
    shown = html.escape(text.replace("\n", "↵")).replace(" ", "&nbsp;") or "&nbsp;"
    return f'<span style="{_TOKEN};{shade(rank)}">{shown}<span style="{_RANK}">{rank:g}</span></span>' + (
        "<br>" * bool(lines) if lines else "<wbr>"
    )


def shade(rank: float) -> str:
    """Return the colour behind a token of this rank, as CSS."""
    return f"background:rgba({COLOUR},{next(strength for top, _, strength in CLASSES if rank <= top):g})"
