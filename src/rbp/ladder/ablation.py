"""The ablation of ladders.toml: rungs of the first ladder, trained as it was but for one thing, such as the heads.

Its runs and models lie where `rbp.ladder.training` puts the first ladder's, its sums of ranks where
`rbp.ladder.aggregates` puts a family's. It is shipped as a family that is there only where it is named.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from rbp.core.errors import ParameterError
from rbp.core.processes import Task, Tell
from rbp.evidence.grid import ABLATION
from rbp.ladder import aggregates, runs
from rbp.ladder.grid import BEGUN, Grid, begin
from rbp.ladder.recipe import Recipe
from rbp.ladder.runs import RungSeed

FAMILY = ABLATION


def choose(grid: Grid, rungs: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[RungSeed]:
    """The runs of the recipe's ablations, or those of some rungs and seeds.

    Raises ParameterError for a rung or a seed that is not there, and if the recipe has none.
    """
    return runs.choose_runs(_recipe(grid), rungs, seeds)


def jobs(grid: Grid, chosen: Sequence[RungSeed], device: str, every: float) -> list[Task]:
    """Those runs that are not trained yet. Raises DataError if the training tokens are not there."""
    recipe, rows = _recipe(grid), sha256(grid.place.rows(grid.base).tobytes()).digest()
    left = [which for which in chosen if not runs.is_done(which, grid.place, recipe, recipe.steps, rows)]
    return [Task(which.name, train, (grid, which, device, every)) for which in left]


def train(told: Tell, grid: Grid, which: RungSeed, device: str = "cpu", every: float = 20.0) -> None:
    """Train one run to its end, from where it stands, and write its model. A job."""
    from rbp.ladder import training

    begin(grid.place.run(*which))
    training.train(told, grid.place, _recipe(grid), which, device, every=every)


def about(grid: Grid, which: RungSeed) -> dict[str, Any]:
    """The record of a finished run, as those of families' models are; {} if there is none."""
    folder = grid.place.run(*which)
    try:
        found, begun = (json.loads((folder / name).read_bytes()) for name in (runs.ABOUT, BEGUN))
    except (OSError, ValueError):
        return {}
    return {**found, "family": FAMILY, "architecture": "neox", "budget": found["tokens"], **begun}


def ranking_jobs(grid: Grid, chosen: Sequence[RungSeed]) -> list[Task]:
    """Those finished runs that are not ranked yet."""
    there = [(which, about(grid, which)) for which in chosen]
    return [
        Task(which.name, rank, (grid, which))
        for which, record in there
        if record and not aggregates.is_done(grid, which.name, record["checksum"], ranks=False)
    ]


def rank(told: Tell, grid: Grid, which: RungSeed) -> None:
    """Rank all documents by one run's model, on one thread, and keep sums. A job."""
    weights = about(grid, which)["checksum"]
    aggregates.rank_by(told, grid, grid.place.model(*which), which.name, FAMILY, weights, ranks=False)


def _recipe(grid: Grid) -> Recipe:
    """The first ladder's, with other rungs."""
    if not grid.ladders.ablations:
        raise ParameterError("the recipe has no ablations", "--family", "Give another family, or another recipe.")
    return replace(grid.base, rungs=grid.ladders.ablations)
