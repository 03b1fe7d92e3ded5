"""Gather how a model was trained: which checkpoint, how many steps and tokens, which seed.

A model's own files, or a small table beside the models, may say it; all that say it must agree.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from rbp import registry
from rbp.errors import DataError, ParameterError
from rbp.io import parse_json

TABLE = "checkpoints.csv"  # beside the models: a row for each, named as its folder
STATE = "trainer_state.json"  # in a checkpoint of transformers' Trainer
#: Pythia's checkpoints: a step reads 1024 rows of 2048 tokens, as EleutherAI/pythia says; main is the last one
PYTHIA_STEP, PYTHIA_LAST = 1024 * 2048, 143_000
ADAPTER = "adapter_config.json"
_PYTHIA = re.compile(r"EleutherAI/pythia-[\d.]+[mb](-deduped)?")
_STEP = re.compile(r"(?:step|checkpoint|iter)[-_]?(\d+)")  # in a revision's name


class Files(Protocol):
    """What is needed of a model's files (`rbp.models.find`), or of a model in memory, which has no folder."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def folder(self) -> Path | None: ...  # noqa: D102
    @property
    def revision(self) -> str | None: ...  # noqa: D102
    @property
    def checkpoint(self) -> str | None: ...  # noqa: D102


@dataclass(frozen=True)
class Training:
    """One checkpoint of a model, as far as it is known.

    revision: as requested, a branch, tag or commit, or a sub-folder of a run's folder; training_tokens: D, read
    until then; step: of the optimizer; seed; compute: floating-point operations (where it is not given, 6·S·D stands
    for it). Raises ParameterError for numbers below 0, and for fewer tokens than steps.
    """

    revision: str | None = None
    training_tokens: int | None = None
    step: int | None = None
    seed: int | None = None
    compute: float | None = None

    def __post_init__(self) -> None:
        for name in NAMES[1:]:
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ParameterError(f"{name} cannot be {value}", TABLE, "Give 0 or more, or leave it out.")
        tokens, step = self.training_tokens, self.step
        if tokens is not None and step is not None and (tokens < step or (tokens > 0 and step == 0)):
            fault = f"{tokens:,} training tokens do not fit {step:,} steps"
            raise ParameterError(fault, TABLE, "A step reads one token at least: correct one.")

    @property
    def known(self) -> dict[str, Any]:
        """Return what is known, by name."""
        return {name: value for name in NAMES if (value := getattr(self, name)) is not None}

    def is_other_than(self, other: "Training") -> bool:
        """Return whether something known of both says that they are two checkpoints, or two runs."""
        mine, its = self.known, other.known
        return any(mine[name] != its[name] for name in mine.keys() & its.keys() - {"compute"})


NAMES = ("revision", "training_tokens", "step", "seed", "compute")
assert tuple(field.name for field in fields(Training)) == NAMES  # noqa: S101


def checkpoints(folder: Path) -> list[str]:
    """List the sub-folders of a run's folder that hold its checkpoints, in the order of training."""
    names = {path.parent.name for name in ("config.json", ADAPTER) for path in folder.glob(f"*/{name}")}
    return sorted(names, key=lambda name: ([int(number) for number in re.findall(r"\d+", name)], name))


def is_checkpoint(folder: Path) -> bool:
    """Return whether a folder holds a model, and is called as a checkpoint is: step1000, or checkpoint-500."""
    return bool(_STEP.fullmatch(folder.name)) and folder.name in checkpoints(folder.parent)


def step_of(revision: str) -> int | None:
    """Return the step that a revision's name says: 1000 for step1000, 500 for checkpoint-500."""
    named = _STEP.search(revision)
    return int(named[1]) if named else None


def training_of(files: Files) -> Training:
    """Gather what is known of a model's training: from its own files, its revision's name, and TABLE.

    Raises DataError where two of these say different things, and for a table or a file that is malformed.
    """
    statements: dict[str, tuple[Any, str]] = {}
    if files.checkpoint is not None:
        statements["revision"] = files.checkpoint, "the revision"
    for where, entries in _statements(files):
        for name, value in entries.items():
            before, place = statements.setdefault(name, (value, where))
            if before != value:
                fault = f"{name} is {before} by {place}, and {value} by {where}"
                raise DataError(fault, _called(files), "Correct one of them, or leave it out.")
    try:
        return Training(**{name: value for name, (value, _) in statements.items()})
    except ParameterError as error:
        raise DataError(error.what, _called(files), error.remedy) from None


def _called(files: Files) -> str:
    return files.name if files.checkpoint is None else f"{files.name}, {files.checkpoint}"


def _statements(files: Files) -> Iterator[tuple[str, dict[str, Any]]]:
    step = step_of(files.checkpoint or "")
    if step is not None:
        yield "the revision's name", {"step": step}
    if files.folder is None:  # a model in memory
        return
    if files.revision is None:  # a folder of the user's
        for record in registry.answers("training", files.folder):
            yield "the record of its training", record
        yield TABLE, _in_table(files.folder)
    elif _PYTHIA.fullmatch(files.name):
        step = PYTHIA_LAST if files.checkpoint in (None, "main") else step
        yield "Pythia's recipe", {} if step is None else {"step": step, "training_tokens": step * PYTHIA_STEP}
    yield STATE, _in_state(files.folder / STATE)


def _in_state(path: Path) -> dict[str, Any]:
    """Read what transformers' Trainer wrote: the step; the tokens where it was set to count them (else it writes 0)."""
    if not path.is_file():
        return {}
    try:
        state = parse_json(path.read_bytes())
        step, tokens = int(state["global_step"]), int(state.get("num_input_tokens_seen") or 0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError("this is not a Trainer's state", str(path), "Save the model again, or remove it.") from None
    return {"step": step} | ({"training_tokens": tokens} if tokens else {})


def _in_table(folder: Path) -> dict[str, Any]:
    """Read the row of a model in the table beside it."""
    path = folder.resolve().parent / TABLE
    if not path.is_file():
        return {}
    import pandas as pd
    import pandera.pandas as pa

    from rbp.tables import NAME, NOT_NEGATIVE, checked, known_columns, read_csv

    columns = {"model": NAME}
    for name in NAMES[1:]:
        kind = "float64" if name == "compute" else "Int64"
        columns[name] = pa.Column(kind, NOT_NEGATIVE, nullable=True, required=False)
    raw, remedy = known_columns(read_csv(path), columns, path), "Correct it: a model is named as its folder."
    table = checked(raw, pa.DataFrameSchema(columns), path, keys=["model"], remedy=remedy)
    rows = table[table["model"] == folder.resolve().name].drop(columns="model").to_dict("records")
    values = [(str(name), value) for row in rows for name, value in row.items() if pd.notna(value)]
    return {name: float(value) if name == "compute" else int(value) for name, value in values}
