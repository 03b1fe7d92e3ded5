"""Read a small table so that every error can name its file and its row.

A CSV is read cell by cell, so that each row keeps the line number a text editor shows and no cell is guessed
at; a Parquet file is read column by column and its rows are counted from 1. Both then pass through the same
conversion and the same pandera schema (`checked`). Nothing here unpickles. What is read is noted (`provenance`).
"""

import csv
import io
import math
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa
import pyarrow as arrow
import pyarrow.parquet as parquet

from rbp.core import provenance
from rbp.core.errors import DataError
from rbp.core.paths import label


def read_csv(path: Path) -> pd.DataFrame:
    """The cells of a CSV file as text (None where empty); the index is the line on which a row begins.

    Raises DataError if the file is missing, empty, no UTF-8 or no CSV.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}", label(path), "Check the path.") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        remedy = "Save it as UTF-8 (in a spreadsheet: “CSV UTF-8”)."
        raise DataError("the file is not UTF-8 text", f"{label(path)}, line {line}", remedy) from None
    if "\0" in text:
        raise DataError("the file is not CSV: it holds zero bytes", label(path), "Export it again as CSV.")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: dict[int, list[str]] = {}
    begin = 1
    try:
        for row in reader:
            if row:  # a blank line holds no row
                rows[begin] = [cell.strip() for cell in row]
            begin = reader.line_num + 1
    except csv.Error as error:
        where = f"{label(path)}, line {begin}"
        raise DataError(f"the file is not CSV: {error}", where, "Mend the quotes there.") from None
    if not rows:
        raise DataError("the file is empty", label(path), "It needs a line of column names, then the rows.")
    provenance.note(path)
    header_line = next(iter(rows))
    header = rows.pop(header_line)
    if len(set(header)) < len(header):
        raise DataError("a column name stands twice", f"{label(path)}, line {header_line}", "Rename one.")
    for line, row in rows.items():
        if len(row) != len(header):
            what = f"{len(row)} cells where the header has {len(header)}"
            raise DataError(what, f"{label(path)}, line {line}", "Separate the cells with single commas.")
    cells = [[cell or None for cell in row] for row in rows.values()]
    return pd.DataFrame(cells, pd.Index(list(rows), name="line"), header, dtype=object)


def read_parquet(path: Path) -> pd.DataFrame:
    """The cells of a Parquet file (None where null); the index counts its rows from 1.

    Raises DataError if the file is missing or no Parquet.
    """
    try:
        with path.open("rb") as file:
            columns = parquet.ParquetFile(file).read()
    except (OSError, arrow.ArrowException) as error:
        what = f"cannot read the file as Parquet: {str(error).splitlines()[0].rstrip('.')}"
        raise DataError(what, label(path), "Write it again, or give a CSV file.") from None
    provenance.note(path)
    # pandas stores row labels that are no plain count as columns of this name
    names = [name for name in columns.column_names if not name.startswith("__index_level_")]
    if len(set(names)) < len(names):
        raise DataError("a column name stands twice", label(path), "Rename one.")
    rows = pd.RangeIndex(1, columns.num_rows + 1, name="row")
    return pd.DataFrame({name: columns[name].to_pylist() for name in names}, rows, dtype=object)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    return value


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("is no number")
    try:
        number = float(value)
    except ValueError:
        raise ValueError("is no number") from None
    if not math.isfinite(number):
        raise ValueError("is NaN" if math.isnan(number) else "is infinite")
    return number + 0.0  # −0 becomes 0


def _whole(value: object) -> int:
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise ValueError("does not fit 64 bits")
        return value
    number = _real(value)  # pandas writes a column of integers with gaps as 1.0, 10.0, …
    if not number.is_integer() or abs(number) > 2**53:
        raise ValueError("is no whole number")
    return int(number)


_NUMBERS = {"float64": _real, "int64": _whole, "Int64": _whole}


def checked(
    raw: pd.DataFrame, schema: pa.DataFrameSchema, path: Path, *, keys: Sequence[str] = (), remedy: str
) -> pd.DataFrame:
    """The table `raw` in the types of `schema`, its columns in the schema's order, every row checked.

    Columns that the schema does not require may be missing; they are filled with missing values. No two rows
    may agree in all of `keys`. Raises DataError naming file, row and `remedy`.
    """

    def fail(what: str, row: object = None) -> DataError:
        return DataError(what, label(path) + (f", {raw.index.name} {row}" if row is not None else ""), remedy)

    if missing := [name for name, column in schema.columns.items() if column.required and name not in raw]:
        raise fail(f"column {missing[0]} is missing: the file has {', '.join(map(str, raw.columns))}")
    if unknown := [str(name) for name in raw.columns if name not in schema.columns]:
        near = get_close_matches(unknown[0], schema.columns, 1)
        raise fail(f"unknown column {unknown[0]!r}" + (f": is {near[0]} meant?" if near else ""))
    if raw.empty:
        raise fail("the table has no rows")
    table = pd.DataFrame(index=raw.index)
    for name, column in schema.columns.items():
        kind = str(column.dtype) if str(column.dtype) in _NUMBERS else "str"
        convert = _NUMBERS.get(kind, _text)
        cells: list[Any] = []
        for row, value in (raw[name] if name in raw else pd.Series(None, raw.index, dtype=object)).items():
            if value is None or (isinstance(value, float) and math.isnan(value) and column.nullable):
                if not column.nullable:
                    raise fail(f"{name} is empty", row)
                cells.append(math.nan if kind == "float64" else pd.NA)
                continue
            try:
                cells.append(convert(value))
            except ValueError as error:
                raise fail(f"{name} {error}: {value!r}", row) from None
        table[name] = pd.array(cells, dtype=kind)  # type: ignore[call-overload]  # the kind is the schema's
    try:
        table = schema.validate(table, lazy=True)
    except pa.errors.SchemaErrors as errors:
        cases = errors.failure_cases.sort_values(["index", "schema_context"], kind="stable")
        first = cases.iloc[0]
        rows = cases["index"].nunique()
        more = f", and {rows - 1} more rows are wrong" if rows > 1 else ""
        one_cell = first["schema_context"] == "Column"
        subject = f"{first['column']} {first['failure_case']} " if one_cell else ""
        raise fail(f"{subject}{first['check']}{more}", first["index"]) from None
    lines: dict[tuple[object, ...], object] = {}
    for row, *key in table[list(keys)].itertuples(name=None):
        if keys and (first_row := lines.setdefault(tuple(key), row)) != row:
            raise fail(f"the row repeats {raw.index.name} {first_row}: the same {', '.join(keys)}", row)
    return table
