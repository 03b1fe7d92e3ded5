"""Put a ladder together from its runs, and copy what fits into the project."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rbp.errors import DataError
from rbp.extraction.manifest import sealed
from rbp.extraction.reader import open_store
from rbp.files import folder_beside, swap_in, write_file, write_json
from rbp.ladder.place import Place
from rbp.ladder.ranks import PRECISION
from rbp.ladder.recipe import Recipe
from rbp.ladder.runs import finished, losses
from rbp.ladder.seen import NAME as SEEN
from rbp.ladder.seen import count

WEIGHTS = 25_000_000  # bytes in all; rungs that do not fit are shipped without weights
POINTS = 200  # of a learning curve


def assemble(place: Place, recipe: Recipe) -> list[dict[str, Any]]:
    """Write runs.json and training.csv from the runs' folders, token_counts.csv from what all of them read.

    Gives the entries of runs.json. Raises DataError if no run is finished, or the training tokens are missing.
    A run's learning curve has about POINTS points: each the mean loss of the steps since the one before.
    """
    entries, curves = [], []
    for which, about in finished(place, recipe):
        folder = place.run(*which)
        compared = json.loads((folder / PRECISION).read_bytes()) if (folder / PRECISION).is_file() else None
        entries.append({**about, "precision": compared})
        loss = losses(folder)
        ends = np.unique(np.linspace(0, len(loss), min(POINTS, len(loss)) + 1).round().astype(int))
        curve = pd.DataFrame({"rung": which.rung.name, "seed": which.seed, "step": ends[1:]})
        curve["tokens"] = curve["step"] * (about["tokens"] // about["steps"])
        curve["loss"] = [round(float(np.mean(loss[a:b])), 4) for a, b in pairwise(ends)]
        curves.append(curve)
    if not entries:
        raise DataError("no run is finished", str(place.folder), "Train first: rbp ladder train.")
    seen = count(place.rows(recipe), recipe.text.vocabulary)
    write_json(place / "runs.json", entries)
    write_file(place / SEEN, seen.to_csv(index=False))
    write_file(place / "training.csv", pd.concat(curves).to_csv(index=False))
    return entries


def ship(place: Place, recipe: Recipe, to: Path) -> list[str]:
    """Copy the finished rungs from the working folder into `to`; gives the models whose weights do not fit.

    Models are those of the first seeds, the smallest first, as long as the weights are WEIGHTS bytes at most; of
    the others the configuration is copied. What `to` held before of the same names is replaced.
    """
    entries = assemble(place, recipe)
    total, left_out = 0, []
    with folder_beside(to / "models") as new:
        for (which, _), entry in zip(finished(place, recipe), entries, strict=True):
            if which.seed != which.rung.seeds[0]:
                entry["shipped"] = False
                continue
            folder = place.model(*which)
            size = (folder / "model.safetensors").stat().st_size
            entry["shipped"] = total + size <= WEIGHTS
            if entry["shipped"]:
                total += size
                shutil.copytree(folder, new / which.name)
            else:
                left_out.append(which.name)
                (new / which.name).mkdir()
                shutil.copy(folder / "config.json", new / which.name)
        swap_in(new, to / "models")
    for name in ("ranks", "seeds"):
        if (place / name).is_dir():
            _copy_stores(place / name, to / name)
    with folder_beside(to / "tokenizer") as new:
        shutil.copytree(place / "tokenizer", new, dirs_exist_ok=True)
        swap_in(new, to / "tokenizer")
    for name in ("documents.csv", "text.json", "training.csv", SEEN):
        write_file(to / name, (place / name).read_bytes())
    write_json(to / "runs.json", entries)
    return left_out


def _copy_stores(folder: Path, to: Path) -> None:
    """Copy finished stores without what only runs need. Raises DataError for one that is not finished or damaged."""
    with folder_beside(to) as new:
        for path in sorted(folder.glob("*/manifest.json")):
            store = open_store(path.parent)
            if wrong := store.problems():
                raise DataError(f"the store is damaged: {wrong[0]}", str(store.folder), "Run rbp ladder rank again.")
            (new / path.parent.name / "parts").mkdir(parents=True)
            write_json(new / path.parent.name / path.name, sealed(store.manifest))
            for part in store.parts:
                shutil.copy(part, new / path.parent.name / "parts")
        swap_in(new, to)
