"""What was done against faults: the list of faults with their tests, the survey of architectures, and the figures that
the slow set has saved.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from rbp.core import provenance
from rbp.core.errors import DataError
from rbp.core.files import parse_json
from rbp.core.paths import DATA, label
from rbp.core.tables import checked, read_csv
from rbp.paper.display import shown

FOLDER = DATA / "faults"
KINDS = ("kills", "failures", "examples")
_REMEDY = "Make it: make test-slow."
_LISTED = pa.DataFrameSchema({"number": pa.Column("int64"), "fault": pa.Column("str"), "tests": pa.Column("str")})
_SURVEYED = pa.DataFrameSchema(
    {
        **{
            name: pa.Column("str")
            for name in ("model", "variant", "route", "padding", "memory", "reason", "transformers")
        },
        "outcome": pa.Column("str", pa.Check.isin(["exact", "wrong", "refused", "not built"])),
        "tokens": pa.Column("int64"),
        "near": pa.Column("int64"),
    }
)
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
    provenance.note(path)
    said = {name: content[name] for name in _SAID if name != "found"}
    return Figures(**said, counts=pd.DataFrame(rows, columns=["kind", "what", "count"]))


def listed_faults(folder: Path = FOLDER) -> pd.DataFrame:
    """The faults: number, fault, tests (files, or tests as pytest names them, between spaces). Raises DataError."""
    path = folder / "faults.csv"
    return checked(read_csv(path), _LISTED, path, keys=("number",), remedy="Restore it: git checkout -- data/faults.")


def architectures(folder: Path = FOLDER) -> pd.DataFrame:
    """The survey of causal architectures (tests/survey.py), a row for each model that was tried. Raises DataError.

    Columns model, variant, outcome ("exact", "wrong", "refused", "not built"), route (what is ranked: "one matrix" or
    "own logits"), padding ("unseen" or "seen"), memory (what the model keeps of what it reads: "none" or "kept"),
    tokens (ranked), near (of these, those with another logit within rounding), reason, and transformers (its version).
    """
    path = folder / "architectures.csv"
    table = read_csv(path).fillna(dict.fromkeys(("variant", "route", "padding", "memory", "reason"), ""))
    return checked(table, _SURVEYED, path, keys=("model", "variant"), remedy=_REMEDY)


def by_outcome(table: pd.DataFrame) -> pd.DataFrame:
    """`architectures` in groups, those with most models first.

    Columns outcome, ranked (from what), padding, memory, why (not exact), models (how many), tokens.
    """
    groups = table.assign(why=table["reason"].map(_why)).groupby(
        ["outcome", "route", "padding", "memory", "why"], sort=False
    )
    columns = {"models": ("model", "size"), "tokens": ("tokens", "sum")}
    grouped = groups.agg(**columns).reset_index().rename(columns={"route": "ranked"})
    return grouped.sort_values(["outcome", "models"], ascending=[True, False], ignore_index=True, key=_exact_first)


def outcomes(table: pd.DataFrame) -> dict[str, int]:
    """What `architectures` found: how many families and models; tokens ranked exactly, and near others; outcomes."""
    exact, counts = table[table["outcome"] == "exact"], table["outcome"].value_counts()
    found = {"families": table["model"].nunique(), "models": len(table)}
    found |= {"tokens": int(exact["tokens"].sum()), "near": int(exact["near"].sum())}
    kinds = ("exact", "wrong", "refused", "not built")
    return found | {kind.replace(" ", "_"): int(counts.get(kind, 0)) for kind in kinds}


# ── For a page


def trials_shown(counts: pd.DataFrame, shards: int, kind: str) -> dict[str, Any]:
    """How often what was tried: the counts of `Figures` and the shards, or one kind of them ("all": all)."""
    words = {"kills": "kill", "failures": "failed write", "examples": "bad input", "shards": "merge"}
    every = [*counts.itertuples(index=False, name=None), ("shards", "shards of a study on Slurm", shards)]
    rows = [(words[name], what, count) for name, what, count in every if kind in ("all", name)]
    return shown(
        pd.DataFrame(rows, columns=["trial", "of", "times"]),
        {"trial": "trial", "of": "of", "times": ("times", "{:,}")},
        caption="<b>How often what was tried</b>, in the last run of the slow tests.",
    )


def faults_shown(listed: pd.DataFrame) -> dict[str, Any]:
    """The `listed_faults`, with the files of their tests, each once."""

    def files(tests: str) -> str:
        return ", ".join(dict.fromkeys(test.split("::")[0].removeprefix("tests/") for test in tests.split()))

    return shown(
        listed,
        {"number": "number", "fault": "fault", "tests": ("tests", files)},
        caption="<b>The faults, and the files in <code>tests/</code> that cover each.</b> The download names the "
        "single tests.",
    )


def architectures_shown(surveyed: pd.DataFrame) -> dict[str, Any]:
    """The groups of `by_outcome`; the download is the whole survey."""
    return shown(
        by_outcome(surveyed).replace({"": None}),
        {
            "outcome": "outcome",
            "ranked": "ranked from",
            "padding": "padding is",
            "memory": "memory",
            "why": "why",
            "models": "models",
            "tokens": ("tokens", "{:,}"),
        },
        caption="<b>What the extraction makes of each architecture.</b> Ranks come from the output layer, or, where "
        "that does not give the logits, from the model’s own. A model that keeps something of what it reads is copied "
        "for each row. The download names the models.",
        data=surveyed,
    )


def _why(reason: str) -> str:
    """A reason, less what differs from model to model."""
    if reason.startswith("the model cannot read a row"):
        return "its own code raises"
    for known in ("the model sees the tokens that it is asked to predict", "cannot load the model"):
        if reason.startswith(known):
            return known
    return reason and "transformers does not build it from a small configuration"


def _exact_first(column: pd.Series) -> pd.Series:
    return column.map({"exact": 0, "wrong": 1, "refused": 2, "not built": 3}) if column.name == "outcome" else column
