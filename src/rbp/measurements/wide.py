"""Tables as people have them, made into the measurement table: other names, a column for each measure, "14M".

A tracker's export has a row for each run and columns such as `n_params`, `eval/loss` and `acc@1`. What is read as what
is said in a warning; `rbp.measurements.table` then checks the result.
"""

import logging
import math
import re
from pathlib import Path

import pandas as pd

from rbp.errors import DataError
from rbp.io import label

log = logging.getLogger(__name__)

_HELD_OUT = r"(?:(?:eval|val|valid|validation|test)[/_. -])?"
_NAMES = {
    "size": r"(?:n|num|model|total|non_?embedding)?[ _-]*(?:params|parameters)|model_size",
    "model": r"name|run|run[ _]name|model_name",
    "training_tokens": r"train(?:ing)?[/_ ]tokens|tokens_seen",
    "dataset": r"corpus|data|text",
    "family": r"series|architecture|arch",
}
_ENTROPY = re.compile(_HELD_OUT + r"(?:loss|cross[_ -]?entropy|ce|nll)")
_PERPLEXITY = re.compile(_HELD_OUT + r"(?:perplexity|ppl)")
_SHARE = re.compile(
    _HELD_OUT + r"(?:mean[_ ]token[_ ]|token[_ ])?(?:acc|accuracy|top|rbp|hits)[@_ -]?(\d+)?(?:[_ -]acc(?:uracy)?)?"
)
_UNITS = {"k": 1e3, "m": 1e6, "b": 1e9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([kmb])", re.IGNORECASE)
_COPY = r"[ _-]*\(?\b(?:copy|copy of|copie)\b\s*\d*\)?"
LARGEST_ENTROPY = 13.0  # nats: above ln of the largest vocabularies
SMALL, LARGE = 1e4, 1e6  # parameters: sizes below the one beside sizes above the other are probably in two units


def tidied(raw: pd.DataFrame, columns: tuple[str, ...], path: Path) -> pd.DataFrame:
    """Return the cells of a table with the measurement table's names, a row for each measure, and sizes as numbers.

    raw: as `spelled` gives it; columns: those of the measurement table. Raises DataError where no
    column is a size or a measure, and for a size that is not a number of parameters.
    """
    low = {str(name): str(name).strip().lower() for name in raw}
    if {"metric", "value"} <= {*raw}:
        table = raw
    else:
        measures = [name for name, word in low.items() if word not in columns and _measure(word)]
        if not measures:
            raise _missing("a measure, such as loss or accuracy", "cross_entropy", raw, path)
        log.warning("%s: columns are read as measures: %s.", label(path), ", ".join(measures))
        # beside measures, a number of tokens is as often that of the training
        others = [name for name, word in low.items() if name not in measures and word not in ("tokens", "hits")]
        table = raw.melt(others, measures, "metric", "value", ignore_index=False)
        table = table[table["value"].notna()]
        rows = [f"{row} ({name})" for row, name in zip(table.index, table["metric"], strict=True)]
        table = table.set_axis(pd.Index(rows, name=raw.index.name))
    table = _renamed(table, low, path)
    if "size" not in table:
        raise _missing("the size", "size", raw, path)
    sizes = [_parameters(cell, path, table.index.name, row) for row, cell in table["size"].items()]
    table["size"] = pd.Series(sizes, table.index, dtype=object)
    ks = table["k"] if "k" in table else [None] * len(table)
    cells = [_measured(*measurement) for measurement in zip(table["metric"], ks, table["value"], strict=True)]
    names = ["metric", "k", "value"]
    table[names] = pd.DataFrame(cells, index=table.index, columns=names, dtype=object)
    for name in ("dataset", "family", "model"):
        if name not in table:
            table[name] = table["size"].map("{} parameters".format) if name == "model" else path.stem
    return table


def _renamed(table: pd.DataFrame, low: dict[str, str], path: Path) -> pd.DataFrame:
    """Return the table with the names that its columns have in `_NAMES`, as far as none has that name already."""
    names: dict[str, str] = {}
    for target, pattern in _NAMES.items():
        matches = [name for name, word in low.items() if name in table and re.fullmatch(pattern, word)]
        if matches and target not in low.values():
            names[matches[0]] = target
    if names:
        pairs = ", ".join(f"{name} as {target}" for name, target in names.items())
        log.warning("%s: columns are read as others: %s.", label(path), pairs)
    return table.rename(columns=names)


def _measure(word: str) -> bool:
    return any(pattern.fullmatch(word) for pattern in (_ENTROPY, _PERPLEXITY, _SHARE))


def _measured(metric: object, k: object, value: object) -> tuple[object, object, object]:
    """Return metric, k and value of a cell in the measurement table's terms: −ln of a share, ln of a perplexity."""
    word = str(metric).strip().lower()
    number = _number(value)
    if number is None:
        return metric, k, value
    if _ENTROPY.fullmatch(word):
        return "cross_entropy", k, value
    if _PERPLEXITY.fullmatch(word) and number > 0:
        return "cross_entropy", k, math.log(number)
    if (share := _SHARE.fullmatch(word)) and 0 < number <= 1:
        return "neg_log_rbp", share[1] or k or "1", -math.log(number) + 0.0
    return metric, k, value


def _parameters(cell: object, path: Path, noun: object, row: object) -> object:
    """Return a size as a number of parameters: 14000000 for "14M"."""
    if isinstance(cell, str) and (short := _SIZE.fullmatch(cell.strip())):
        return round(float(short[1]) * _UNITS[short[2].lower()])
    number = _number(cell)
    if number is not None and 0 < number < 1000 and not number.is_integer():
        fault = f"a size of {cell} is not a number of parameters"
        remedy = f"Give parameters: {number * 1e9:.0f}, if these are billions, or {cell}B."
        raise DataError(fault, f"{label(path)}, {noun} {row}", remedy)
    return cell


def _number(cell: object) -> float | None:
    if isinstance(cell, bool) or not isinstance(cell, int | float | str) or "_" in str(cell):
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _missing(needed: str, name: str, raw: pd.DataFrame, path: Path) -> DataError:
    header = ", ".join(map(str, raw))
    large = (column for column in raw if name == "size" and all((_number(cell) or 0) >= SMALL for cell in raw[column]))
    remedy = f"Rename the column that holds it, such as: sed -i '1s/{next(large, 'COLUMN')}/{name}/' {path.name}"
    return DataError(f"no column is {needed}: the file has {header}", label(path), remedy)


def warn_of_slips(table: pd.DataFrame, path: Path) -> None:
    """Warn of what is probably not meant: sizes in two units, one model under two names, a perplexity as a loss."""
    where = label(path)
    for family, sizes in table.groupby("family")["size"]:
        least, most = sizes.min(), sizes.max()
        if least < SMALL and not SMALL <= most <= LARGE:
            fault = f"sizes are numbers of parameters, and those of {family} are {least:,} to {most:,}"
            log.warning("%s: %s: are all in one unit, and none in millions or billions?", where, fault)
    short = table["model"].str.rpartition("/")[2].str.lower().str.replace(_COPY, "", regex=True)
    for _, names in table["model"].groupby([table["family"], table["size"], short]):
        if len(several := list(dict.fromkeys(names))) > 1:
            log.warning("%s: %s look like one model, and count as %d.", where, " and ".join(several), len(several))
    entropies = table.loc[table["metric"] == "cross_entropy", "value"]
    if (entropies > LARGEST_ENTROPY).any():
        fault = f"a cross-entropy of {entropies.max():g} nats is above that of guessing"
        log.warning("%s: %s: is it a perplexity? Its column would be called perplexity.", where, fault)
