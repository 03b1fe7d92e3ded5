"""The families of ladders.toml: every one's rungs at every budget of training tokens, trained and resumed.

A training run is a family's rung with one seed. Its trunk runs at a constant rate, and leaves its state where each
budget branches off (training/RUN/at-STEP.safetensors); from there the rate falls to 0 within the rest of the budget,
which gives a finished model: training/NAME/ holds its state and run.json, models/NAME/ the model. What a run has read
until a branch is the same for all budgets, so a finished model is that of a whole run of its own.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ladder import DATA, LADDER, text
from ladder.recipe import Change, Course, Family, Ladders, Recipe
from ladder.workspace import ABOUT, Rows, Workspace, read_record
from rbp.errors import ParameterError
from rbp.io import folder_beside, locked, swap_in, write_json
from rbp.io import sha256 as checksum
from rbp.processes import DONE, Task, Tell
from rbp.store import full_disk

PREDICTIONS = DATA / "predictions" / "ladders.toml"
LONGER = DATA / "predictions" / "tokens.toml"  # of runs beyond the grid's largest budget
BEGUN = "begun.json"  # in the folder of a model's run, or of a trunk


class TrainingRun(NamedTuple):
    """A family's rung with one seed, at some budgets; of a trial, with what it changes."""

    family: Family
    rung: str
    seed: int
    budgets: tuple[int, ...]
    change: Change = Change()

    @property
    def name(self) -> str:
        """Return the name of its folder: neox-10k, neox-10k-seed1, neox-10k-rate0.004, neox-10k-longer."""
        return f"{self.family.name}-{self.rung}{self._rest}" + ("-longer" if self.change.more else "")

    def model_name(self, tokens: int) -> str:
        """Return the name of its model at a budget: neox-10k-at-0.5m, neox-10k-at-8m-seed1, neox-10k-at-8m-batch4."""
        return f"{self.family.name}-{self.rung}-at-{tokens / 1e6:g}m{self._rest}"

    @property
    def _rest(self) -> str:
        return (f"-seed{self.seed}" if self.seed else "") + str(self.change)


@dataclass(frozen=True)
class Making:
    """Families, the recipe that has their text, and the folder that they are trained in (see `place`).

    predictions: what was forecast of them, whose checksum every run keeps.
    """

    ladders: Ladders
    base: Recipe
    place: Workspace
    predictions: Path = PREDICTIONS

    def choose(
        self, families: Sequence[str], rungs: Sequence[str] = (), seeds: Sequence[int] = ()
    ) -> list[TrainingRun]:
        """List the runs of some families, all or of some rungs and seeds, in the order of the recipe.

        Seed 0 comes first. Raises ParameterError for a family, a rung or a seed that is not there.
        """
        chosen = [self.ladders.family(name) for name in dict.fromkeys(families)]
        for name in rungs:
            if not any(name in family.rungs for family in chosen):
                available = ", ".join(dict.fromkeys(rung for family in chosen for rung in family.rungs))
                raise ParameterError(f"there is no rung {name!r}", "--rungs", f"There is: {available}.")
        runs = [
            TrainingRun(family, rung, seed, self.ladders.budgets(seed))
            for family in chosen
            for rung in family.rungs
            if not rungs or rung in rungs
            for seed in self.ladders.seeds(family, rung)
        ]
        for seed in seeds:
            if not any(run.seed == seed for run in runs):
                available = ", ".join(map(str, sorted({run.seed for run in runs})))
                raise ParameterError(f"none of these rungs has seed {seed}", "--seeds", f"There is: {available}.")
        return sorted((run for run in runs if not seeds or run.seed in seeds), key=lambda run: run.seed > 0)

    def prepare(self, texts: Path | None, more: int = 0) -> None:
        """Make what is missing of all that training and ranking read; the tokenizer is the shipped one, if it fits.

        texts: the folder of the corpora, or None for their public homes; more: tokens that follow the text's.
        """
        shipped, tokenizer = LADDER / "tokenizer", self.place / "tokenizer"
        if (
            not tokenizer.is_dir()
            and shipped.is_dir()
            and read_record(LADDER / "text.json").get("recipe") == self.base.text_digest()
        ):
            with folder_beside(tokenizer) as new:
                shutil.copytree(shipped, new, dirs_exist_ok=True)
                swap_in(new, tokenizer)
        text.prepare(self.place, self.base, texts)
        if more:
            text.prepare_more(self.place, self.base, texts, more)

    def rows(self, run: TrainingRun) -> Rows:
        """Read the training tokens in the order in which a run reads them: another order is one of what all read.

        Where few of them are distinct, the first of that order, over and over. A longer run reads the rows that trials
        are judged by too: it comes after the others.
        """
        rows = self.place.rows(self.base)
        if run.change.more:
            rows = np.concatenate([rows, self.place.more(self.base, run.change.more)])
        order = self.ladders.repeats[run.seed].order if run.seed else 0
        if order == 0 and run.change.distinct is None:
            return rows
        context = rows.shape[1] - 1
        read = self.ladders.training.budgets[-1] // context
        order_read = np.random.default_rng(order).permutation(read) if order else np.arange(read)
        if run.change.distinct is not None:
            order_read = np.resize(order_read[: run.change.distinct // context], read)
        return np.concatenate([rows[:read][order_read], rows[read:]])

    def schedule(self, run: TrainingRun) -> Ladders:
        """Give the recipe with the batch of a run, and with its budgets, if it is longer than the grid's."""
        batch = run.change.batch or self.ladders.training.batch
        budgets = run.budgets if run.change.more else self.ladders.training.budgets
        return self.ladders.with_training(batch=batch, budgets=budgets)

    def course(self, run: TrainingRun, tokens: int | None) -> Course:
        """Return the course of a run: see `Ladders.course`."""
        return self.schedule(run).course(self.base, run.family, run.rung, run.seed, tokens, run.change.rate)

    def about(self, run: TrainingRun, tokens: int) -> dict[str, Any]:
        """Return what the run.json of a finished model says; {} if there is none."""
        return read_record(self.place / "training" / run.model_name(tokens) / ABOUT)

    def model(self, run: TrainingRun, tokens: int) -> Path:
        """Return the folder of a finished model."""
        return self.place / "models" / run.model_name(tokens)

    def is_done(self, run: TrainingRun, tokens: int, rows: Rows) -> bool:
        """Say whether the model of a budget is finished, on whatever device, and whole; rows: the run's."""
        record = self.about(run, tokens)
        try:
            weights = checksum(self.model(run, tokens) / "model.safetensors")
        except OSError:
            return False
        digests = self.course(run, tokens).digests(sha256(rows.tobytes()).digest())
        return record.get("digest") in digests and record.get("checksum") == weights

    def finished(self, runs: Sequence[TrainingRun]) -> Iterator[tuple[TrainingRun, int, dict[str, Any]]]:
        """Return the models of some runs that are there: their runs, budgets, and what run.json says."""
        for run in runs:
            for tokens in run.budgets:
                record = self.about(run, tokens)
                if record and self.model(run, tokens).is_dir():
                    yield run, tokens, record

    def jobs(self, runs: Sequence[TrainingRun], device: str) -> list[Task]:
        """Return what is left to be trained of the runs. Raises DataError if the training tokens are not there."""
        left = []
        for run in runs:
            rows = self.rows(run)
            if not all(self.is_done(run, tokens, rows) for tokens in run.budgets):
                left.append(Task(run.name, train, (self, run, device)))
        return left


def train(tell: Tell, making: Making, run: TrainingRun, device: str = "cpu") -> None:
    """Train all budgets of a run, from where it stands: a stretch of the trunk, the cool-down at its end, … A job."""
    import torch

    from ladder import training

    torch.set_num_threads(1)
    folder, rows = making.place / "training" / run.name, making.rows(run)
    with full_disk(folder), locked(folder, "another process is working on it"):
        begun = begin(folder, LONGER if run.change.more else making.predictions)
        trunk = training.Run(making.course(run, None), rows, folder, device)
        training.take_up(trunk)
        for tokens in run.budgets:
            if making.is_done(run, tokens, rows):
                continue
            branch = making.schedule(run).branch(making.base, tokens)
            left = f"at-{branch}.safetensors"
            if trunk.done <= branch:
                trunk.train(training.progress(trunk, tell), branch)
                trunk.save(left)
            course = making.course(run, tokens)
            run_folder = making.place / "training" / run.model_name(tokens)
            cooled = training.Run(course, rows, run_folder, device, (folder / left, trunk.digest()))
            training.take_up(cooled)
            cooled.train(training.progress(cooled, tell))
            record = {"family": run.family.name, "rung": run.rung, "seed": run.seed, "budget": tokens}
            record |= {name: course.model[name] for name in ("architecture", "layers", "width", "heads")}
            record |= {name: value for name, value in run.change._asdict().items() if value is not None}
            record |= {"name": run.model_name(tokens), "rate": course.settings["rate"], **begun}
            training.finish(cooled, record, making.model(run, tokens), making.place)
    tell(DONE)


def begin(folder: Path, predictions: Path) -> dict[str, str]:
    """Record when a run began, and the SHA-256 of its predictions then, before its first step; return both."""
    path = folder / BEGUN
    if not path.exists():
        digest = checksum(predictions) if predictions.is_file() else ""
        write_json(path, {"begun": datetime.now(UTC).isoformat(timespec="seconds"), "predictions": digest})
    begun: dict[str, str] = json.loads(path.read_bytes())
    return begun
