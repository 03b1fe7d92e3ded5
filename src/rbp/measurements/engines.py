"""Import a table of ranks that another program computed as a rank store."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from rbp.choices import Dtype
from rbp.errors import DataError, ParameterError
from rbp.fingerprint import fingerprint, marks_of, must_be_unchanged
from rbp.io import home_expanded, label
from rbp.store import SCHEMA, Store, find_place, is_store

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


class Token(NamedTuple):
    """A ranked token: where it stands, which it is, its rank and its −ln p (nats)."""

    document: int
    position: int
    token: int
    rank: float
    nll: float


def import_ranks(path: str | Path, labels: ImportLabels, out: Path) -> Path:
    """Keep a table of ranks, CSV or Parquet, as a rank store below the folder `out`; return the store's folder.

    Columns: document, position, token, rank, and logprob or nll; or greater and equal in place of rank, as an export of
    ranks has them. The store is read under no other tie rule than it was counted by. The same file under another name
    of model or text is another store. Raises DataError for a file that is malformed or not whole, for ranks and
    probabilities that cannot both be, and where the store has been renamed.
    """
    source = home_expanded(str(path))
    marks = marks_of([source])
    tokens = list(_read_table(source, labels))
    if not tokens:
        raise DataError("no token is ranked in it", str(path), "Give a table with a row for each ranked token.")
    _must_be_ranked(tokens, str(path))
    columns = {name: np.array([getattr(token, name) for token in tokens]) for name in Token._fields}
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
    above = columns["rank"].astype(np.int64) - 1
    columns |= {"greater": above, "equal": np.ones_like(above)}
    store.write_whole(key, notes, {name: columns[name] for name in SCHEMA.names if name in columns})
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


def _must_be_ranked(tokens: list[Token], where: str) -> None:
    """Raise DataError where every rank is 1 although the model was unsure: the program did not count."""
    unsure = math.fsum(token.nll for token in tokens)
    if unsure > GREEDY and all(token.rank == 1 for token in tokens):
        fault = f"all {len(tokens):,} ranks are 1, with a cross-entropy of {unsure / len(tokens):.2f} nats"
        remedy = (
            "The program did not count ranks, or the text is the model's own greedy output: neither is a measurement."
        )
        raise DataError(fault, where, remedy)


def _checked(token: Token, labels: ImportLabels, where: str) -> Token:
    for name in ("document", "position"):
        if not 0 <= (number := getattr(token, name)) <= MOST:
            raise DataError(f"{name} {number} is not from 0 to {MOST}", where, "Number them from 0.")
    if not (1 <= token.rank <= labels.vocabulary and token.rank == int(token.rank)):
        fault = f"{token.rank:g} is no rank among {labels.vocabulary:,} tokens"
        raise DataError(fault, where, "Ranks count from 1; is it the right --vocabulary?")
    if not 0 <= token.token < labels.vocabulary:
        raise DataError(f"there is no token {token.token}", where, "Is it the right --vocabulary?")
    if not token.nll >= 0:
        raise DataError(f"{-token.nll:g} is no logarithm of a probability", where, "Log-probabilities are 0 at most.")
    if token.rank * math.exp(-token.nll) > 1 + SLACK:
        p = math.exp(-token.nll)
        fault = f"a token of rank {token.rank:g} cannot have the probability {p:.3g}: those before it have as much each"
        raise DataError(fault, where, _OTHER_SCORES)
    if token.rank == 1 and token.nll > math.log(labels.vocabulary) + SLACK:
        fault = f"the likeliest of {labels.vocabulary:,} tokens cannot have the probability {math.exp(-token.nll):.3g}"
        raise DataError(fault, where, f"{_OTHER_SCORES} Or is it the right --vocabulary?")
    return token


_OTHER_SCORES = "Ranks and log-probabilities are not of the same scores."


def _read_table(path: Path, labels: ImportLabels) -> Iterator[Token]:
    """Yield the rows of a table."""
    from rbp.tables import known_columns, read_csv, read_parquet

    names = ("document", "position", "token", "rank", "greater", "equal", "nll", "logprob")
    table = known_columns(read_parquet(path) if path.suffix == ".parquet" else read_csv(path), names, path)
    if "rank" not in table and {"greater", "equal"} <= {*table}:  # as `rbp ranks export` writes it
        beside = 1 if labels.tie_rule == "strict" else table["equal"].astype(float)
        table["rank"] = table["greater"].astype(float) + beside
    if lacking := [name for name in ("document", "position", "token", "rank") if name not in table]:
        fault, remedy = f"there is no column {lacking[0]}", "Columns: document, position, token, rank, logprob or nll."
        raise DataError(fault, label(path), remedy)
    if ("nll" in table) == ("logprob" in table):
        raise DataError("one of the columns nll and logprob is needed", label(path), "Give one of them.")
    name, sign = ("nll", 1) if "nll" in table else ("logprob", -1)
    seen: set[tuple[int, int]] = set()
    for line, cells in zip(table.index, table.to_dict("records"), strict=True):
        where = f"{label(path)}, line {line}"
        try:
            if any("_" in str(cell) for cell in cells.values()):  # Python reads 1_0 as 10
                raise ValueError
            document, position, token = (int(cells[column]) for column in ("document", "position", "token"))
            ranked = Token(document, position, token, float(cells["rank"]), sign * float(cells[name]) + 0.0)
        except (TypeError, ValueError):
            raise DataError("a cell is empty, or no number", where, "Fill it in.") from None
        if (document, position) in seen or min(document, position) < 0:
            fault = f"document {document}, position {position} is there twice, or below 0"
            raise DataError(fault, where, "Each token has one row.")
        seen.add((document, position))
        yield _checked(ranked, labels, where)
