"""The runs of a recipe: which there are, which are finished, and what is known about them. Without PyTorch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rbp.core.errors import ParameterError
from rbp.core.files import sha256 as checksum
from rbp.ladder.recipe import Course, Recipe, Rung
from rbp.ladder.workspace import Workspace, model_name

STATE, ABOUT = "state.safetensors", "run.json"  # in a run's folder: where it stands, and what it came to


class RungSeed(NamedTuple):
    """One run: a rung and a seed."""

    rung: Rung
    seed: int

    @property
    def name(self) -> str:
        """As its model is called."""
        return model_name(self.rung, self.seed)


def choose_runs(recipe: Recipe, rungs: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[RungSeed]:
    """The runs of the recipe, or those of some rungs and seeds: the longest first.

    Raises ParameterError for a rung that is not there, and a seed that none of the rungs has.
    """
    chosen = [recipe.rung(name) for name in dict.fromkeys(rungs)] or list(recipe.rungs)
    for seed in seeds:
        if not any(seed in rung.seeds for rung in chosen):
            there = sorted({seed for rung in chosen for seed in rung.seeds})
            remedy = f"There is: {', '.join(map(str, there))}."
            raise ParameterError(f"none of these rungs has seed {seed}", "--seeds", remedy)
    found = [RungSeed(rung, seed) for rung in chosen for seed in rung.seeds if not seeds or seed in seeds]
    return sorted(found, key=lambda which: _cost(which.rung, recipe), reverse=True)


def is_done(which: RungSeed, place: Workspace, recipe: Recipe, steps: int, rows: bytes) -> bool:
    """Whether the run is finished, on whatever device, and its model is there and whole."""
    try:
        about = json.loads((place.run(*which) / ABOUT).read_bytes())
        weights = checksum(place.model(*which) / "model.safetensors")
    except (OSError, ValueError):
        return False
    course = recipe.course(which.rung, which.seed, steps)
    return about.get("digest") in digests(course, rows) and about.get("checksum") == weights


def digests(course: Course, rows: bytes) -> set[str]:
    """Those of a course on each kind of device; rows: the SHA-256 of the training tokens."""
    return {course.digest(device, rows) for device in ("cpu", "cuda")}


def losses(folder: Path) -> list[float]:
    """The loss of every step of the run in `folder`."""
    from safetensors import safe_open

    with safe_open(folder / STATE, "np") as file:
        found: list[float] = file.get_tensor("losses").tolist()
    return found


def _cost(rung: Rung, recipe: Recipe) -> int:
    """Multiplications for a token, about."""
    return rung.layers * 12 * rung.width**2 + recipe.text.vocabulary * rung.width


def finished_runs(place: Workspace, recipe: Recipe) -> list[tuple[RungSeed, dict[str, Any]]]:
    """The runs whose model is there, in the order of the recipe, with what run.json says."""
    found = []
    for rung in recipe.rungs:
        for seed in rung.seeds:
            path = place.run(rung, seed) / ABOUT
            if path.is_file() and place.model(rung, seed).is_dir():
                found.append((RungSeed(rung, seed), json.loads(path.read_bytes())))
    return found
