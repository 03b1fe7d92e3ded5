"""What ranking costs beside other ways: read from the results of `python -m bench.ranking` in bench/results."""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rbp import published
from rbp.errors import DataError
from rbp.paths import ROOT
from rbp.tables import label

FOLDER = ROOT / "bench" / "results"
OURS, PLAIN = "ours", "plain route"  # how the names of the two ways begin
_COLUMNS = ["rows", "d", "vocabulary", "way", "ratio", "ratio_low", "ratio_high", "extra_memory_mb"]


@dataclass(frozen=True)
class Costs:
    """The table of `read`, and where its numbers come from."""

    table: pd.DataFrame

    def statement(self, gpu: bool) -> str:
        """One or two sentences: what ranks cost on CPUs, or on GPUs, or that it is still to be measured."""
        mine = self.table[self.table["gpu"] == gpu]
        if mine.empty:
            return f"On a {'GPU' if gpu else 'CPU'} the cost of ranks is still to be measured."
        sentences = []
        for device, rows in mine.groupby("device", sort=True):
            ours, plain = (rows[rows["way"].str.startswith(way)] for way in (OURS, PLAIN))
            sentences.append(
                f"On {device} the ranks cost {_span(ours['ratio'], '.2f')} times the bare matrix product with "
                f"{_span(ours['extra_memory_mb'], ',.0f')} MB of extra memory, the plain route "
                f"{_span(plain['ratio'], '.2f')} times with {_span(plain['extra_memory_mb'], ',.0f')} MB."
            )
        return " ".join(sentences)


def read(folder: Path = FOLDER) -> Costs:
    """Every result of the ranking's benchmark in `folder`; none if there is no such file.

    Columns device, gpu, dtype, date, rows (positions), d (width), vocabulary, way, ratio (the median, against the
    bare product of the same round), ratio_low, ratio_high, extra_memory_mb. Raises DataError for a malformed file.
    """
    tables = []
    for path in sorted(folder.glob("ranking*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            table = pd.DataFrame(content["rows"])[_COLUMNS]
            about = {name: content[name] for name in ("device", "dtype", "date")}
        except (ValueError, KeyError, TypeError):
            remedy = "Write it again: python -m bench.ranking --json FILE."
            raise DataError("this is no result of the ranking's benchmark", label(path), remedy) from None
        published.opened.add(label(path))
        tables.append(table.assign(**about, gpu=about["dtype"] == "bfloat16"))
    columns = ["device", "gpu", "dtype", "date", *_COLUMNS]
    return Costs(pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns))


def _span(values: "pd.Series[float]", how: str) -> str:
    low, high = format(values.min(), how), format(values.max(), how)
    return low if low == high else f"{low} to {high}"
