"""The trials of ladders.toml: runs beside the grid's that differ in one thing, judged on rows that no run reads.

They are lines like the grid's, trained, saved and resumed as those are; what a trial does not change is the grid's own
run. training/NAME/unseen.json holds what a finished model came to.
"""

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rbp.core.errors import DataError, ParameterError
from rbp.core.files import sha256 as checksum
from rbp.core.files import write_file, write_json
from rbp.core.processes import DONE, Task, Tell
from rbp.ladder.grid import Grid, Line, train
from rbp.ladder.recipe import Trial

LOSS = "unseen.json"
COLUMNS = ["model", "family", "rung", "seed", "budget", "rate", "batch", "distinct", "loss"]


def choose(grid: Grid, names: Sequence[str]) -> list[Trial]:
    """The trials of these names, or all, in the order of the recipe. Raises ParameterError for an unknown name."""
    there = [trial.name for trial in grid.ladders.trials]
    if unknown := [name for name in names if name not in there]:
        raise ParameterError(
            f"there is no trial {unknown[0]!r}", "--trials", f"There is: {', '.join(there) or 'none'}."
        )
    return [trial for trial in grid.ladders.trials if not names or trial.name in names]


def lines(
    grid: Grid, trial: Trial, families: Sequence[str] = (), rungs: Sequence[str] = (), seeds: Sequence[int] = ()
) -> list[Line]:
    """What a trial trains, or some families, rungs and seeds of it: narrow ones first."""
    found = [
        Line(family, rung, seed, trial.budgets, change)
        for family in map(grid.ladders.family, trial.families)
        if not families or family.name in families
        for rung in [*trial.rungs, *trial.rates]
        if not rungs or rung in rungs
        for change in grid.ladders.changes(trial, family, rung)
        for seed in trial.seeds
        if not seeds or seed in seeds
    ]
    return sorted(found, key=lambda line: grid.ladders.widths[line.rung])


def apart(grid: Grid, chosen: Sequence[Line]) -> list[Line]:
    """The same without the models that are the grid's own, and without repeats."""
    own = {line.at(tokens) for line in grid.choose([f.name for f in grid.ladders.families]) for tokens in line.budgets}
    budgets: dict[Line, set[int]] = {}
    for line in chosen:
        left = {tokens for tokens in line.budgets if line.at(tokens) not in own}
        budgets.setdefault(line._replace(budgets=()), set()).update(left)
    return [line._replace(budgets=tuple(sorted(left))) for line, left in budgets.items() if left]


def jobs(grid: Grid, chosen: Sequence[Line], device: str, every: float) -> list[Task]:
    """What is left of some lines. Raises DataError if the text is too short for them."""
    read = max((line.budgets[-1] for line in chosen), default=0)
    unseen = grid.ladders.unseen * grid.base.text.context
    if read + unseen > (there := grid.base.text.tokens):
        what = f"a trial reads {read:,} tokens and is judged on {unseen:,} others, and there are {there:,}"
        raise DataError(what, "tokens", "Give more text.")
    return [
        Task(line.name, run, (grid, line, device, every))
        for line in chosen
        if not all(loss(grid, line, tokens) for tokens in line.budgets)
    ]


def run(told: Tell, grid: Grid, line: Line, device: str = "cpu", every: float = 20.0) -> None:
    """Train a line, and write the mean loss of each of its models on the unseen rows, in nats. A job."""
    for tokens in line.budgets:  # so that a shorter run is judged before the longer one begins
        train(told, grid, line._replace(budgets=(tokens,)), device, every)
        if not loss(grid, line, tokens):
            path = grid.place / "training" / line.at(tokens) / LOSS
            write_json(path, {**_key(grid, line, tokens), "loss": _measure(grid, grid.model(line, tokens))})
    told(DONE)


def loss(grid: Grid, line: Line, tokens: int) -> float | None:
    """The loss of a finished model on the unseen rows, in nats; None if there is none of these weights and rows."""
    try:
        found = json.loads((grid.place / "training" / line.at(tokens) / LOSS).read_bytes())
        value: float = found.pop("loss")
        return value if found == _key(grid, line, tokens) else None
    except (OSError, ValueError, KeyError, AttributeError):
        return None


def _key(grid: Grid, line: Line, tokens: int) -> dict[str, str]:
    """The weights as they are kept, and the rows that they are judged by."""
    rows = grid.place.rows(grid.base)[-grid.ladders.unseen :]
    weights = checksum(grid.model(line, tokens) / "model.safetensors")
    return {"weights": weights, "rows": sha256(rows.tobytes()).hexdigest()}


def _measure(grid: Grid, model: Path) -> float:
    import torch

    from rbp.ladder.training import loss_of
    from rbp.ranks.extraction import quiet
    from rbp.ranks.models import find_model, load_model

    rows = torch.from_numpy(grid.place.rows(grid.base)[-grid.ladders.unseen :].astype(np.int64))
    with quiet(), torch.inference_mode():
        loaded = load_model(find_model(str(model)), "float32", torch.device("cpu")).model
        each = [loss_of(loaded, part).item() * len(part) for part in torch.split(rows, grid.ladders.training.batch)]
    return round(sum(each) / len(rows), 4)


def table(grid: Grid, chosen: Iterable[Line]) -> pd.DataFrame:
    """The models of some lines that are finished and judged: `COLUMNS`, loss in nats; distinct: tokens, else empty."""
    rows: list[dict[str, Any]] = []
    for line in chosen:
        for tokens in line.budgets:
            if (value := loss(grid, line, tokens)) is not None:
                course = grid.course(line, tokens)
                named = {"model": line.at(tokens), "family": line.family.name, "rung": line.rung, "seed": line.seed}
                rate = {"rate": float(f"{course.about['rate']:.6g}"), "batch": course.batch}
                rows.append({**named, "budget": tokens, **rate, "distinct": line.change.distinct, "loss": value})
    return pd.DataFrame(rows, columns=COLUMNS).astype({"distinct": "Int64"})


def put(found: pd.DataFrame, path: Path) -> None:
    """Write a table of losses, by name; rows that are there of other models stay."""
    if path.is_file():
        there = pd.read_csv(path, dtype={"distinct": "Int64"})
        found = pd.concat([there, found]).drop_duplicates("model", keep="last")
    write_file(path, found.sort_values("model").to_csv(index=False, lineterminator="\n").encode())
