"""The trials of ladders.toml: runs that differ from the grid in one thing, judged on rows that no run reads.

They are runs like the grid's, trained, saved and resumed alike; what a trial does not change is the grid's own
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

from ladder.making import Making, TrainingRun, train
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
    available = [trial.name for trial in making.ladders.trials]
    if unknown := [name for name in names if name not in available]:
        raise ParameterError(
            f"there is no trial {unknown[0]!r}", "--trials", f"There is: {', '.join(available) or 'none'}."
        )
    return [trial for trial in making.ladders.trials if not names or trial.name in names]


def runs_of(
    making: Making, trial: Trial, families: Sequence[str] = (), rungs: Sequence[str] = (), seeds: Sequence[int] = ()
) -> list[TrainingRun]:
    """Return what a trial trains, or some families, rungs and seeds of it: narrow ones first."""
    runs = [
        TrainingRun(family, rung, seed, trial.budgets, change)
        for family in map(making.ladders.family, trial.families)
        if not families or family.name in families
        for rung in [*trial.rungs, *trial.rates]
        if not rungs or rung in rungs
        for change in making.ladders.changes(trial, family, rung)
        for seed in trial.seeds
        if not seeds or seed in seeds
    ]
    return sorted(runs, key=lambda run: making.ladders.widths[run.rung])


def beyond_grid(making: Making, chosen: Sequence[TrainingRun]) -> list[TrainingRun]:
    """Return the same without the models that are the grid's own, and without repeats."""
    grid_models = {
        run.model_name(tokens)
        for run in making.choose([f.name for f in making.ladders.families])
        for tokens in run.budgets
    }
    budgets: dict[TrainingRun, set[int]] = {}
    for run in chosen:
        left = {tokens for tokens in run.budgets if run.model_name(tokens) not in grid_models}
        budgets.setdefault(run._replace(budgets=()), set()).update(left)
    return [run._replace(budgets=tuple(sorted(left))) for run, left in budgets.items() if left]


def jobs(making: Making, chosen: Sequence[TrainingRun], device: str) -> list[Task]:
    """Return what is left of some runs. Raises DataError if the text is too short for them."""
    for run in chosen:
        unseen = 0 if run.change.more else making.ladders.unseen * making.base.text.context
        if run.budgets[-1] + unseen > (available := making.base.text.tokens + (run.change.more or 0)):
            fault = f"a trial reads {run.budgets[-1]:,} tokens and is judged on {unseen:,} others"
            raise DataError(f"{fault}, and there are {available:,}", "tokens", "Give more text.")
    return [
        Task(run.name, train_and_judge, (making, run, device))
        for run in chosen
        if not all(_is_done(making, run, tokens) for tokens in run.budgets)
    ]


def _is_done(making: Making, run: TrainingRun, tokens: int) -> bool:
    return making.is_done(run, tokens, making.rows(run)) if run.change.more else bool(loss(making, run, tokens))


def train_and_judge(tell: Tell, making: Making, run: TrainingRun, device: str = "cpu") -> None:
    """Train a run, and write the mean loss of each of its models on the unseen rows, in nats. A job."""
    for tokens in run.budgets:  # so that a shorter run is judged before the longer one begins
        train(tell, making, run._replace(budgets=(tokens,)), device)
        if not run.change.more and not loss(making, run, tokens):
            path = making.place / "training" / run.model_name(tokens) / LOSS
            write_json(path, {**_key(making, run, tokens), "loss": _measure(making, making.model(run, tokens))})
    tell(DONE)


def loss(making: Making, run: TrainingRun, tokens: int) -> float | None:
    """Return a finished model's loss on the unseen rows, in nats; None if there is none of these weights and rows."""
    record = read_record(making.place / "training" / run.model_name(tokens) / LOSS)
    value: float | None = record.pop("loss", None)
    with suppress(OSError):  # where the weights are gone
        if record == _key(making, run, tokens):
            return value
    return None


def _key(making: Making, run: TrainingRun, tokens: int) -> dict[str, str]:
    """Return the weights as they are kept, and the rows that they are judged by."""
    rows = making.place.rows(making.base)[-making.ladders.unseen :]
    weights = checksum(making.model(run, tokens) / "model.safetensors")
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
        losses = [loss_of(loaded, part).item() * len(part) for part in torch.split(rows, making.ladders.training.batch)]
    return round(sum(losses) / len(rows), 4)


def loss_table(making: Making, chosen: Iterable[TrainingRun]) -> pd.DataFrame:
    """Return the models of some runs that are finished and judged, with `COLUMNS`; loss in nats."""
    rows: list[dict[str, Any]] = []
    for run in chosen:
        for tokens in run.budgets:
            if (value := loss(making, run, tokens)) is not None:
                course = making.course(run, tokens)
                named = {"model": run.model_name(tokens), "family": run.family.name, "rung": run.rung, "seed": run.seed}
                rate = {"rate": float(f"{course.settings['rate']:.6g}"), "batch": course.batch}
                rows.append({**named, "budget": tokens, **rate, "distinct": run.change.distinct, "loss": value})
    return pd.DataFrame(rows, columns=COLUMNS).astype({"distinct": "Int64"})


def write_losses(losses: pd.DataFrame, path: Path) -> None:
    """Write a table of losses, by name; rows that are there of other models stay."""
    if path.is_file():
        old = pd.read_csv(path, dtype={"distinct": "Int64"})
        losses = pd.concat([old, losses]).drop_duplicates("model", keep="last")
    write_file(path, losses.sort_values("model").to_csv(index=False, lineterminator="\n").encode())
