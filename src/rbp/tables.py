"""Read a small table so that every error can name its file and its row.

A CSV is read cell by cell, so that each row keeps the line number a text editor shows and no cell is guessed
at; a Parquet file is read column by column and its rows are counted from 1. Both then pass through the same
pandera schema (`checked`). Nothing here unpickles. What is read is noted (`provenance`).
"""

import csv
import io
import logging
import math
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa
import pyarrow as arrow
import pyarrow.parquet as parquet
from pandera.engines import pandas_engine

from rbp import provenance
from rbp.errors import DataError
from rbp.io import label
from rbp.names import nearest

log = logging.getLogger(__name__)

# kinds of columns that many tables have
NOT_NEGATIVE = pa.Check.ge(0, error="must not be negative")
AT_LEAST_1 = pa.Check.ge(1, error="must be at least 1")
NAME, COUNT, COUNT_FROM_0 = pa.Column("str"), pa.Column("int64", AT_LEAST_1), pa.Column("int64", NOT_NEGATIVE)
POSITIVE = pa.Column("float64", pa.Check.gt(0, error="must be above 0"))
SHARE = pa.Column("float64", pa.Check.in_range(0, 1, error="must lie between 0 and 1"))


def among(names: Collection[str]) -> pa.Column:
    """Make a column of these names alone."""
    return pa.Column("str", pa.Check.isin([*names], error=f"must be one of {', '.join(names)}"))


def read_csv(path: Path) -> pd.DataFrame:
    """Read the cells of a CSV file as text (None where empty); the index is the line on which a row begins.

    Cells are separated by commas, or by what stands most often in the header: semicolons, as spreadsheets write them
    in many countries, or tabs; then a warning says so, unless it is a .tsv file with tabs.

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
    first = next((line for line in text.splitlines() if line.strip()), "")
    separator = max(SEPARATORS, key=first.count)  # what stands most often in the header; else the comma
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    lines, rows, begin = list[int](), list[list[str]](), 1
    try:
        for row in reader:
            if row:  # a blank line holds no row
                lines.append(begin)
                rows.append(row)
            begin = reader.line_num + 1
    except csv.Error as error:
        where = f"{label(path)}, line {begin}"
        raise DataError(f"the file is not CSV: {error}", where, "Correct the quotes there.") from None
    if not rows:
        raise DataError("the file is empty", label(path), "It needs a line of column names, then the rows.")
    provenance.note(path)
    if separator != ("\t" if path.suffix.lower() == ".tsv" else ","):
        log.warning("%s: the cells are taken to be separated by %s.", label(path), SEPARATORS[separator])
    header = [cell.strip() for cell in rows[0]]
    if len(set(header)) < len(header):
        raise DataError("a column name appears twice", f"{label(path)}, line {lines[0]}", "Rename one.")
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(header):
            fault = f"{len(row)} cells where the header has {len(header)}"
            remedy = f"Separate the cells with single {SEPARATORS[separator]}."
            raise DataError(fault, f"{label(path)}, line {line}", remedy)
    columns = zip(*rows[1:], strict=True) if rows[1:] else [()] * len(header)
    cells = {name: [cell.strip() or None for cell in column] for name, column in zip(header, columns, strict=True)}
    return pd.DataFrame(cells, pd.Index(lines[1:], name="line"), dtype=object)


SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


def spelled(raw: pd.DataFrame, columns: Collection[str], path: Path) -> pd.DataFrame:
    """Rename columns that a user's table spells with other capitals ("Model", "SIZE"); a warning says which."""
    words = {name: low for name in raw if (low := str(name).lower()) in columns and name not in columns}
    names = {name: low for name, low in words.items() if low not in raw and list(words.values()).count(low) == 1}
    if names:
        renamed = ", ".join(f"{name} for {low}" for name, low in names.items())
        log.warning("%s: columns are taken without regard to capitals: %s.", label(path), renamed)
    return raw.rename(columns=names)


def known_columns(raw: pd.DataFrame, columns: Collection[str], path: Path) -> pd.DataFrame:
    """Keep the `columns` that a user's table has, in whatever letters (`spelled`); a warning says which are ignored."""
    raw = spelled(raw, columns, path)
    if other := [str(name) for name in raw if name not in columns]:
        taken = ", ".join(columns)
        log.warning("%s: columns are ignored: %s. Those that are read: %s.", label(path), ", ".join(other), taken)
    return raw[[name for name in raw if name in columns]]


def read_parquet(path: Path) -> pd.DataFrame:
    """Read the cells of a Parquet file (None where null); the index counts its rows from 1.

    Raises DataError if the file is missing or no Parquet.
    """
    try:
        with path.open("rb") as file:
            columns = parquet.ParquetFile(file).read()
    except OSError as error:
        fault = f"cannot read the file: {error.strerror or str(error).splitlines()[0]}"
        raise DataError(fault, label(path), "Check the path.") from None
    except arrow.ArrowException as error:
        fault = f"cannot read the file as Parquet: {str(error).splitlines()[0].rstrip('.')}"
        raise DataError(fault, label(path), "Write it again, or give a CSV file.") from None
    provenance.note(path)
    # pandas stores row labels that are no plain count as columns of this name
    names = [name for name in columns.column_names if not name.startswith("__index_level_")]
    if len(set(names)) < len(names):
        raise DataError("a column name appears twice", label(path), "Rename one.")
    rows = pd.RangeIndex(1, columns.num_rows + 1, name="row")
    return pd.DataFrame({name: columns[name].to_pylist() for name in names}, rows, dtype=object)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"is not text: {value!r}")
    return value


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"is not a number: {value!r}")
    try:
        if "_" in str(value):  # to Python 1_0.5 is 10.5, to a spreadsheet it is text
            raise ValueError
        number = float(value)
    except (ValueError, OverflowError):
        comma = isinstance(value, str) and re.fullmatch(r"[+-]?\d*,\d+", value)
        hint = " (write a point for the decimal comma)" if comma else ""
        raise ValueError(f"is not a number: {value!r}{hint}") from None
    if not math.isfinite(number):
        raise ValueError(f"is {'NaN' if math.isnan(number) else 'infinite'}: {value!r}")
    return number + 0.0  # −0 becomes 0


def _whole(value: object) -> int:
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"does not fit 64 bits: {value!r}")
        return value
    number = _real(value)  # pandas writes a column of integers with gaps as 1.0, 10.0, …
    if not number.is_integer() or abs(number) > 2**53:
        raise ValueError(f"is not a whole number: {value!r}")
    return int(number)


_NUMBERS: dict[str, Callable[[object], Any]] = {"float64": _real, "int64": _whole, "Int64": _whole}


class _Cells(pandas_engine.DataType):
    """A type of pandas whose cells pandera coerces one by one: a bool is no number, 1.0 a whole one, NaN none."""

    read: Callable[[object], Any]
    nullable: bool

    def __init__(self, column: pa.Column) -> None:
        kind = str(column.dtype) if str(column.dtype) in _NUMBERS else "str"
        read = _NUMBERS.get(kind, _text)
        fields = {"type": pd.api.types.pandas_dtype(kind), "read": read, "nullable": column.nullable}
        for name, value in fields.items():
            object.__setattr__(self, name, value)  # it is frozen

    def coerce_value(self, value: Any) -> Any:
        """Convert a cell to this type; pd.NA for none. Raises ValueError, which says what is wrong with it."""
        if value is None or (self.nullable and isinstance(value, float) and math.isnan(value)):
            if not self.nullable:
                raise ValueError("is empty")
            return math.nan if self.type == "float64" else pd.NA
        return self.read(value)

    def coerce(self, data_container: Any) -> Any:
        """Convert a column to this type, plain cells at once, in a hundredth of the time. Raises ValueError."""
        cells, kinds = list(data_container), {*map(type, data_container)}
        values: Any = None
        if self.nullable and kinds == {type(None)}:
            values = [math.nan if str(self.type) == "float64" else pd.NA] * len(cells)
        elif str(self.type) == "float64" and kinds <= {str, int, float} and not any("_" in str(cell) for cell in cells):
            with suppress(ValueError, OverflowError):
                numbers = np.array(cells, dtype=object).astype(np.float64) + 0.0
                values = numbers if np.isfinite(numbers).all() else None
        elif self.read is _whole and (kinds == {int} or (kinds == {str} and all(map(str.isdecimal, cells)))):
            with suppress(OverflowError):
                values = np.array([*map(int, cells)], dtype=np.int64)
        elif self.read is _text and kinds == {str}:
            values = cells
        if values is None:
            values = [self.coerce_value(value) for value in cells]
        return pd.Series(pd.array(values, dtype=self.type), data_container.index, name=data_container.name)


def checked(
    raw: pd.DataFrame, schema: pa.DataFrameSchema, path: Path, *, keys: Sequence[str] = (), remedy: str
) -> pd.DataFrame:
    """Convert the table `raw` to the types of `schema`, its columns in the schema's order, every row checked.

    Columns that the schema does not require may be missing; they are filled with missing values. No two rows
    may agree in all of `keys`. Raises DataError naming file, row and `remedy`.
    """
    if raw.empty:
        raise DataError("the table has no rows", label(path), remedy)
    schema = schema.update_columns({name: {"dtype": _Cells(column)} for name, column in schema.columns.items()})
    schema.coerce = schema.strict = True
    if keys:
        schema.checks = [*schema.checks, pa.Check(lambda table: ~table.duplicated(list(keys)), error=_REPEATED)]
    optional = [name for name, column in schema.columns.items() if not column.required and name not in raw]
    try:
        return schema.validate(raw.assign(**dict.fromkeys(optional)), lazy=True)[list(schema.columns)]
    except pa.errors.SchemaErrors as errors:
        (fault, row), *others = _faults(errors, raw, keys)
    rest = [f"{raw.index.name} {row}: {fault}" if row is not None else fault for fault, row in others[:FAULTS]]
    if len(others) > FAULTS:
        rest.append(f"and {len(others) - FAULTS} more")
    remedy = f"Also: {'; '.join(rest)}.\n{remedy}" if rest else remedy
    raise DataError(fault, label(path) + (f", {raw.index.name} {row}" if row is not None else ""), remedy)


FAULTS = 5  # that are named after the first
_REPEATED = "the row repeats"
_STAGES = {"column_in_dataframe": 0, "column_in_schema": 1, "coerce_dtype": 2, _REPEATED: 4}


def _faults(errors: pa.errors.SchemaErrors, raw: pd.DataFrame, keys: Sequence[str]) -> list[tuple[str, object]]:
    """List what is wrong, each with its row: columns, or else cells that are not of their type, or else checks."""
    cases, schema = errors.failure_cases, errors.schema
    stages = cases["check"].str.partition("(")[0].map(_STAGES).fillna(3)  # 3: a check of the schema
    stage = stages.min()
    cases = cases[stages == stage].sort_values(["index", "schema_context"], kind="stable")
    if stage == 3:  # a check is named once
        wrong = cases.groupby(["check", "column"], dropna=False)["index"].transform("nunique")
        cases = cases.assign(wrong=wrong).drop_duplicates(["check", "column"])
    faults: list[tuple[str, object]] = []
    for case in cases.to_dict("records"):
        name, value, row = case["column"], case["failure_case"], case["index"]
        match stage:
            case 0:
                faults.append((f"column {value} is missing: the file has {', '.join(map(str, raw.columns))}", None))
            case 1:
                faults.append((f"unknown column {str(value)!r}. {nearest(str(value), schema.columns)}", None))
            case 2:
                try:
                    schema.columns[name].dtype.coerce_value(raw.loc[row, name])
                except ValueError as error:
                    faults.append((f"{name} {error}", row))
            case 4:
                like = errors.data.index.to_series().groupby([errors.data[key] for key in keys], dropna=False)
                earlier = like.transform("min")[row]
                faults.append((f"{_REPEATED} {raw.index.name} {earlier}: the same {', '.join(keys)}", row))
            case _:
                more = f", and {case['wrong'] - 1} more rows are wrong" if case["wrong"] > 1 else ""
                subject = f"{name} {value} " if case["schema_context"] == "Column" else ""
                faults.append((f"{subject}{case['check']}{more}", row))
    return list(dict.fromkeys(faults))
