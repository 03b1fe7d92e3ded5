"""Import a table of ranks that another program computed as a rank store."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pandera.pandas as pa

from rbp.choices import Dtype
from rbp.errors import DataError, ParameterError
from rbp.fingerprint import fingerprint, marks_of, must_be_unchanged
from rbp.io import home_expanded, label
from rbp.store import Store, find_place, is_store
from rbp.tables import checked, known_columns, read_csv, read_parquet

RULES = ("paper", "strict")  # of ranks that are whole numbers
SLACK = 1e-3  # by which R · p may pass 1: engines round what they print
MOST = 2**31 - 1  # documents, positions and tokens are kept as 32-bit numbers
GREEDY = 20.0  # nats: a text of which the model is so unsure has all tokens the likeliest less than once in 10^8


@dataclass(frozen=True)
class ImportLabels:
    """The labels that a file of ranks does not give itself.

    model, dataset, family: their labels; size: S; vocabulary: how many logits there are; dtype: of the scores that
    were compared; tie_rule: how equal scores were counted (vLLM's V1 engine: paper); engine_version: of the program.
    Raises ParameterError for what cannot be.
    """

    model: str
    dataset: str
    family: str
    size: int
    vocabulary: int
    dtype: str
    tie_rule: str
    engine_version: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("tie_rule", RULES), ("dtype", get_args(Dtype))):
            if (value := getattr(self, name)) not in allowed:
                option = f"--{name.replace('_', '-')}"
                raise ParameterError(
                    f"unknown {name.replace('_', ' ')} {value!r}", option, f"One of: {', '.join(allowed)}."
                )
        for name, least in (("size", 1), ("vocabulary", 2)):
            if getattr(self, name) < least:
                raise ParameterError(f"a {name} of {getattr(self, name)}", f"--{name}", f"Give at least {least}.")
        if self.vocabulary > MOST:
            raise ParameterError(f"a vocabulary of {self.vocabulary}", "--vocabulary", f"Give at most {MOST}.")


def import_ranks(path: str | Path, labels: ImportLabels, out: Path) -> Path:
    """Keep a table of ranks, CSV or Parquet, as a rank store below the folder `out`; return the store's folder.

    Columns: document, position, token, rank, and logprob or nll; or greater and equal in place of rank, as an export of
    ranks has them. The store is read under no other tie rule than it was counted by. The same file under another name
    of model or text is another store. Raises DataError for a file that is malformed or not whole, for ranks and
    probabilities that cannot both be, and where the store has been renamed.
    """
    source = home_expanded(str(path))
    marks = marks_of([source])
    tokens = _read_table(source, labels)
    key = {
        "imported": fingerprint([source]),
        "protocol": {"name": "imported", "length": None},
        "dtype": labels.dtype,
        "tie_rule": labels.tie_rule,
        "device": "imported",
        "labels": {
            name: getattr(labels, name) for name in ("model", "dataset", "size", "vocabulary", "engine_version")
        },
    }
    must_be_unchanged(marks, marks_of([source]))
    named = f"{Path(labels.model).name}-{labels.dataset}"
    store = find_place(out, named, key)
    notes = {name: value for name, value in asdict(labels).items() if name not in ("dtype", "tie_rule")}
    _must_have_its_name(store, notes)
    columns = tokens.assign(greater=tokens["rank"] - 1, equal=1).drop(columns="rank")
    store.write_whole(key, notes, {str(name): column.to_numpy() for name, column in columns.items()})
    return store.folder


def _must_have_its_name(store: Store, notes: dict[str, Any]) -> None:
    """Raise DataError for a store that was renamed since: it would lose its new name."""
    if not is_store(store.folder):
        return
    stored = store.manifest["about"]
    for name in ("model", "dataset", "family"):
        if stored[name] != notes[name]:
            fault = f"the same ranks are here already, with the {name} {stored[name]}, not {notes[name]}"
            remedy = f"Rename them: rbp ranks rename {store.folder} --{name} {notes[name]}; or give another --out."
            raise DataError(fault, str(store.folder), remedy)


def _read_table(path: Path, labels: ImportLabels) -> pd.DataFrame:
    """Read the ranked tokens: columns document, position, token, rank (int64) and nll (nats)."""
    where = pa.Column("int64", pa.Check.in_range(0, MOST, error=f"is not from 0 to {MOST}"))
    among, size = f"among {labels.vocabulary:,} tokens", labels.vocabulary
    schema = pa.DataFrameSchema(
        {
            **dict.fromkeys(("document", "position"), where),
            "token": pa.Column("int64", pa.Check.in_range(0, size - 1, error=f"is no token {among}")),
            "rank": pa.Column("int64", pa.Check.in_range(1, size, error=f"is no rank {among}")),
        }
    )
    cells = read_parquet(path) if path.suffix == ".parquet" else read_csv(path)
    cells = known_columns(cells, (*schema.columns, "greater", "equal", "nll", "logprob"), path)
    if "rank" not in cells and {"greater", "equal"} <= {*cells}:  # as `rbp ranks export` writes it
        greater, equal = (pd.to_numeric(cells[name], "coerce") for name in ("greater", "equal"))
        cells["rank"] = greater + (1 if labels.tie_rule == "strict" else equal)
    if ("nll" in cells) == ("logprob" in cells):
        raise DataError("one of the columns nll and logprob is needed", label(path), "Give one of them.")
    name, sign = ("nll", 1) if "nll" in cells else ("logprob", -1)
    nll = sign * pd.to_numeric(cells[name], "coerce") + 0.0  # −0 becomes 0
    remedy = "Each token has one row; ranks count from 1; is it the right --vocabulary?"
    columns = [name for name in cells if name in schema.columns]
    tokens = checked(cells[columns], schema, path, keys=["document", "position"], remedy=remedy).assign(nll=nll)
    p = np.exp(-tokens["nll"])
    for wrong, fault, remedy in (
        (nll.isna(), "its −ln p is empty, or no number", "Fill it in."),
        (nll < 0, "its −ln p, {0[nll]:g}, is no logarithm of a probability", "Log-probabilities are 0 at most."),
        (
            tokens["rank"] * p > 1 + SLACK,
            "a token of rank {0[rank]:g} cannot have the probability {1:.3g}: those before it have as much each",
            _OTHER_SCORES,
        ),
        (
            (tokens["rank"] == 1) & (nll > np.log(size) + SLACK),
            f"the likeliest of {size:,} tokens cannot have the probability {{1:.3g}}",
            f"{_OTHER_SCORES} Or is it the right --vocabulary?",
        ),
    ):
        if wrong.any():
            first = int(wrong.to_numpy().argmax())
            place = f"{label(path)}, {cells.index.name} {cells.index[first]}"
            raise DataError(fault.format(tokens.iloc[first], p.iloc[first]), place, remedy)
    if nll.sum() > GREEDY and (tokens["rank"] == 1).all():
        fault = f"all {len(tokens):,} ranks are 1, with a cross-entropy of {nll.mean():.2f} nats"
        remedy = (
            "The program did not count ranks, or the text is the model's own greedy output: neither is a measurement."
        )
        raise DataError(fault, str(path), remedy)
    return tokens


_OTHER_SCORES = "Ranks and log-probabilities are not of the same scores."
