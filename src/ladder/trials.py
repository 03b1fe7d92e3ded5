"""The trials of ladders.toml: runs that differ from the grid in one thing, judged on rows that no run reads.

They are lines like the grid's, trained, saved and resumed alike; what a trial does not change is the grid's own
run. training/NAME/unseen.json holds what a finished model came to. Runs over more text than the grid's read those rows
too, so they have no such loss: what they are worth is what they make of the evaluation texts.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ladder.making import Line, Making, train
from ladder.recipe import Trial
from ladder.workspace import read_record
from rbp.errors import DataError, ParameterError
from rbp.io import sha256 as checksum
from rbp.io import write_file, write_json
from rbp.processes import DONE, Task, Tell

LOSS = "unseen.json"
COLUMNS = ["model", "family", "rung", "seed", "budget", "rate", "batch", "distinct", "loss"]


def choose(making: Making, names: Sequence[str]) -> list[Trial]:
    """Return the trials of these names, or all, in the recipe's order. Raises ParameterError for an unknown name."""
    known = [trial.name for trial in making.ladders.trials]
    if unknown := [name for name in names if name not in known]:
        raise ParameterError(
            f"there is no trial {unknown[0]!r}", "--trials", f"There is: {', '.join(known) or 'none'}."
        )
    return [trial for trial in making.ladders.trials if not names or trial.name in names]


def lines(
    making: Making, trial: Trial, families: Sequence[str] = (), rungs: Sequence[str] = (), seeds: Sequence[int] = ()
) -> list[Line]:
    """Return what a trial trains, or some families, rungs and seeds of it: narrow ones first."""
    lines_of_trial = [
        Line(family, rung, seed, trial.budgets, change)
        for family in map(making.ladders.family, trial.families)
        if not families or family.name in families
        for rung in [*trial.rungs, *trial.rates]
        if not rungs or rung in rungs
        for change in making.ladders.changes(trial, family, rung)
        for seed in trial.seeds
        if not seeds or seed in seeds
    ]
    return sorted(lines_of_trial, key=lambda line: making.ladders.widths[line.rung])


def apart(making: Making, chosen: Sequence[Line]) -> list[Line]:
    """Return the same without the models that are the grid's own, and without repeats."""
    grid_models = {
        line.at(tokens) for line in making.choose([f.name for f in making.ladders.families]) for tokens in line.budgets
    }
    budgets: dict[Line, set[int]] = {}
    for line in chosen:
        left = {tokens for tokens in line.budgets if line.at(tokens) not in grid_models}
        budgets.setdefault(line._replace(budgets=()), set()).update(left)
    return [line._replace(budgets=tuple(sorted(left))) for line, left in budgets.items() if left]


def jobs(making: Making, chosen: Sequence[Line], device: str) -> list[Task]:
    """Return what is left of some lines. Raises DataError if the text is too short for them."""
    for line in chosen:
        unseen = 0 if line.change.more else making.ladders.unseen * making.base.text.context
        if line.budgets[-1] + unseen > (given := making.base.text.tokens + (line.change.more or 0)):
            what = (
                f"a trial reads {line.budgets[-1]:,} tokens and is judged on {unseen:,} others, and there are {given:,}"
            )
            raise DataError(what, "tokens", "Give more text.")
    return [
        Task(line.name, run, (making, line, device))
        for line in chosen
        if not all(_is_done(making, line, tokens) for tokens in line.budgets)
    ]


def _is_done(making: Making, line: Line, tokens: int) -> bool:
    return making.is_done(line, tokens, making.rows(line)) if line.change.more else bool(loss(making, line, tokens))


def run(tell: Tell, making: Making, line: Line, device: str = "cpu") -> None:
    """Train a line, and write the mean loss of each of its models on the unseen rows, in nats. A job."""
    for tokens in line.budgets:  # so that a shorter run is judged before the longer one begins
        train(tell, making, line._replace(budgets=(tokens,)), device)
        if not line.change.more and not loss(making, line, tokens):
            path = making.place / "training" / line.at(tokens) / LOSS
            write_json(path, {**_key(making, line, tokens), "loss": _measure(making, making.model(line, tokens))})
    tell(DONE)


def loss(making: Making, line: Line, tokens: int) -> float | None:
    """Return a finished model's loss on the unseen rows, in nats; None if there is none of these weights and rows."""
    record = read_record(making.place / "training" / line.at(tokens) / LOSS)
    value: float | None = record.pop("loss", None)
    with suppress(OSError):  # where the weights are gone
        if record == _key(making, line, tokens):
            return value
    return None


def _key(making: Making, line: Line, tokens: int) -> dict[str, str]:
    """Return the weights as they are kept, and the rows that they are judged by."""
    rows = making.place.rows(making.base)[-making.ladders.unseen :]
    weights = checksum(making.model(line, tokens) / "model.safetensors")
    return {"weights": weights, "rows": sha256(rows.tobytes()).hexdigest()}


def _measure(making: Making, model: Path) -> float:
    import torch

    from ladder.training import loss_of
    from rbp.extract.extraction import quiet
    from rbp.models.find import find_model
    from rbp.models.load import load_model

    rows = torch.from_numpy(making.place.rows(making.base)[-making.ladders.unseen :].astype(np.int64))
    with quiet(), torch.inference_mode():
        loaded = load_model(find_model(str(model)), "float32", torch.device("cpu")).model
        each = [loss_of(loaded, part).item() * len(part) for part in torch.split(rows, making.ladders.training.batch)]
    return round(sum(each) / len(rows), 4)


def table(making: Making, chosen: Iterable[Line]) -> pd.DataFrame:
    """Return the models of some lines that are finished and judged, with `COLUMNS`; loss in nats."""
    rows: list[dict[str, Any]] = []
    for line in chosen:
        for tokens in line.budgets:
            if (value := loss(making, line, tokens)) is not None:
                course = making.course(line, tokens)
                named = {"model": line.at(tokens), "family": line.family.name, "rung": line.rung, "seed": line.seed}
                rate = {"rate": float(f"{course.about['rate']:.6g}"), "batch": course.batch}
                rows.append({**named, "budget": tokens, **rate, "distinct": line.change.distinct, "loss": value})
    return pd.DataFrame(rows, columns=COLUMNS).astype({"distinct": "Int64"})


def put(losses: pd.DataFrame, path: Path) -> None:
    """Write a table of losses, by name; rows that are there of other models stay."""
    if path.is_file():
        old = pd.read_csv(path, dtype={"distinct": "Int64"})
        losses = pd.concat([old, losses]).drop_duplicates("model", keep="last")
    write_file(path, losses.sort_values("model").to_csv(index=False, lineterminator="\n").encode())
