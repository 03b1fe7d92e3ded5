"""The runs of a ladder: which there are, train them side by side, and write a model for each that is finished."""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rbp.errors import DataError, ParameterError
from rbp.extraction.store import full_disk
from rbp.files import folder_beside, swap_in, write_json
from rbp.files import sha256 as checksum
from rbp.ladder.jobs import DONE, Job, Told
from rbp.ladder.place import Place, locked, model_name
from rbp.ladder.recipe import Course, Recipe, Rung

if TYPE_CHECKING:
    from rbp.ladder.train import Run

ABOUT = "run.json"
LAST = 64  # steps whose mean loss is given as the final one


class Which(NamedTuple):
    """One run: a rung and a seed."""

    rung: Rung
    seed: int

    @property
    def name(self) -> str:
        """As its model is called."""
        return model_name(self.rung, self.seed)


def choose(recipe: Recipe, rungs: Sequence[str] = (), seeds: Sequence[int] = ()) -> list[Which]:
    """The runs of the recipe, or those of some rungs and seeds: the longest first.

    Raises ParameterError for a rung that is not there, and a seed that none of the rungs has.
    """
    chosen = [recipe.rung(name) for name in dict.fromkeys(rungs)] or list(recipe.rungs)
    for seed in seeds:
        if not any(seed in rung.seeds for rung in chosen):
            there = sorted({seed for rung in chosen for seed in rung.seeds})
            remedy = f"There is: {', '.join(map(str, there))}."
            raise ParameterError(f"none of these rungs has seed {seed}", "--seeds", remedy)
    found = [Which(rung, seed) for rung in chosen for seed in rung.seeds if not seeds or seed in seeds]
    return sorted(found, key=lambda which: _cost(which.rung, recipe), reverse=True)


def jobs(
    runs: Sequence[Which], place: Place, recipe: Recipe, device: str, steps: int | None, every: float
) -> list[Job]:
    """What is left to be trained of `runs`, saving every so many seconds.

    Raises DataError if the training tokens are not there.
    """
    rows = sha256(place.rows(recipe).tobytes()).digest()
    return [
        Job(which.name, train, (place, recipe, which, device, steps, every))
        for which in runs
        if not is_done(which, place, recipe, steps or recipe.steps, rows)
    ]


def is_done(which: Which, place: Place, recipe: Recipe, steps: int, rows: bytes) -> bool:
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


def train(
    told: Told, place: Place, recipe: Recipe, which: Which, device: str, steps: int | None = None, every: float = 20.0
) -> None:
    """Train one run to its end, from where it stands, and write its model. A job."""
    import torch

    from rbp.ladder.train import Run

    torch.set_num_threads(1)
    folder = place.run(*which)
    with full_disk(folder), locked(folder):
        for path in folder.glob(".*.tmp"):  # left by a kill
            path.unlink()
        run = Run(recipe.course(which.rung, which.seed, steps), place.rows(recipe), folder, device)
        take_up(run)
        run.train(every, progress(run, told))
        about = {"name": which.name, "rung": which.rung.name, "seed": which.seed}
        about |= {name: getattr(which.rung, name) for name in ("layers", "width", "heads")}
        finish(run, about, place.model(*which), place)
    told(DONE)


def take_up(run: "Run") -> None:
    """Go on where the run's folder stands. Raises DataError if what it holds is another run's."""
    from rbp.ladder.train import STATE

    if not run.resume() and (run.folder / STATE).exists():
        what = "the folder holds the state of a run of another recipe, text, device or number of steps"
        raise DataError(what, str(run.folder / STATE), "Give another folder (--out), or remove it.")


def progress(run: "Run", told: Told) -> "Callable[[Run], None]":
    """Tells after each step how far the run is, how fast, and what is left."""
    before, began = run.done, run.seconds
    tokens = run.course.batch * (run.rows.shape[1] - 1)

    def tell(run: "Run") -> None:
        speed = (run.done - before) / max(run.seconds - began, 1e-9)
        left = (run.steps - run.done) / speed
        told(
            f"{run.done:,} of {run.steps:,} steps  loss {np.mean(run.losses[-LAST:]):.3f}  "
            f"{speed * tokens:,.0f} tokens/s  {left // 60:.0f} min {left % 60:.0f} s left"
        )

    return tell


def finish(run: "Run", about: dict[str, Any], folder: Path, place: Place) -> None:
    """Write the model in half precision, with configuration and tokenizer, and say what the run came to.

    about: what names the run, to which size, tokens, loss (nats, mean of the last steps), cost, processors, versions
    and checksums are added.
    """
    import torch
    from safetensors.torch import save

    from rbp.extraction.about import quiet
    from rbp.extraction.sizes import non_embedding_params
    from rbp.ladder.data import read_tokenizer

    model = run.model.cpu()
    exact = save({name: value.contiguous() for name, value in model.state_dict().items()})
    tokens = run.steps * run.course.batch * (run.rows.shape[1] - 1)
    about = {
        **about,
        "size": non_embedding_params(model),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "steps": run.steps,
        "tokens": tokens,
        "loss": round(float(np.mean(run.losses[-LAST:])), 4),
        "seconds": round(run.seconds, 1),
        "cpu_seconds": round(run.cpu_seconds, 1),
        "tokens_per_second": round(tokens / run.seconds),
        "device": run.device.type,
        "processors": run.processors,
        "torch": torch.__version__,
        "digest": run.digest(),
        "checksum_float32": sha256(exact).hexdigest(),
    }
    with folder_beside(folder) as new, quiet():
        model.half().save_pretrained(new)
        read_tokenizer(place).save_pretrained(new)
        (new / "generation_config.json").unlink(missing_ok=True)
        about["checksum"] = checksum(new / "model.safetensors")
        swap_in(new, folder)
    write_json(run.folder / ABOUT, about)


def losses(folder: Path) -> list[float]:
    """The loss of every step of the run in `folder`."""
    from safetensors import safe_open

    from rbp.ladder.train import STATE

    with safe_open(folder / STATE, "np") as file:
        found: list[float] = file.get_tensor("losses").tolist()
    return found


def _cost(rung: Rung, recipe: Recipe) -> int:
    """Multiplications for a token, about."""
    return rung.layers * 12 * rung.width**2 + recipe.text.vocabulary * rung.width


def finished(place: Place, recipe: Recipe) -> list[tuple[Which, dict[str, Any]]]:
    """The runs whose model is there, in the order of the recipe, with what run.json says."""
    found = []
    for rung in recipe.rungs:
        for seed in rung.seeds:
            path = place.run(rung, seed) / ABOUT
            if path.is_file() and place.model(rung, seed).is_dir():
                found.append((Which(rung, seed), json.loads(path.read_bytes())))
    return found
