"""What was done against faults: the list of faults with their tests, and the figures that the slow set has saved."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from rbp import published
from rbp.errors import DataError
from rbp.files import parse_json
from rbp.paths import DATA
from rbp.tables import checked, label, read_csv

FOLDER = DATA / "faults"
KINDS = ("kills", "failures", "examples")
_REMEDY = "Make it: make test-slow."
_LISTED = pa.DataFrameSchema({"number": pa.Column("int64"), "fault": pa.Column("str"), "tests": pa.Column("str")})
_SAID = {"date": str, "machine": str, "python": str, "busy": bool, "finished": bool, "found": list, "seconds": int}


@dataclass(frozen=True)
class Figures:
    """One run of the slow set.

    date; machine, in words; python: its version; busy: whether other work ran beside it; finished: whether all was
    done, and held; seconds; counts: one row for each piece of it: kind (one of KINDS), what, count.
    """

    date: str
    machine: str
    python: str
    busy: bool
    finished: bool
    seconds: int
    counts: pd.DataFrame

    def total(self, kind: str) -> int:
        """How many of a kind were done in all."""
        return int(self.counts.loc[self.counts["kind"] == kind, "count"].sum())

    def least(self, kind: str) -> int:
        """How many of a kind were done of what had the fewest; 0 for none."""
        counts = self.counts.loc[self.counts["kind"] == kind, "count"]
        return int(counts.min()) if len(counts) else 0


def figures(folder: Path = FOLDER) -> Figures:
    """The figures of the last run of the slow set. Raises DataError if there are none, or they have another form."""
    path = folder / "figures.json"
    try:
        content: Any = parse_json(path.read_bytes())
        if not all(type(content[name]) is kind for name, kind in _SAID.items()):
            raise TypeError
        rows = [(kind, str(what), int(count)) for kind in KINDS for what, count in content[kind].items()]
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}", label(path), _REMEDY) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError("these are no figures of the slow set", label(path), _REMEDY) from None
    published.opened.add(label(path))
    said = {name: content[name] for name in _SAID if name != "found"}
    return Figures(**said, counts=pd.DataFrame(rows, columns=["kind", "what", "count"]))


def listed(folder: Path = FOLDER) -> pd.DataFrame:
    """The faults: number, fault, tests (files, or tests as pytest names them, between spaces). Raises DataError."""
    path = folder / "faults.csv"
    table = checked(read_csv(path), _LISTED, path, keys=("number",), remedy="Restore it: git checkout -- data/faults.")
    published.opened.add(label(path))
    return table
