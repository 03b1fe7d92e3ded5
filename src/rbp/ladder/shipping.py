"""Put a ladder together from its runs, copy what fits into the project, and read what was shipped."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pandera.pandas as pa

from rbp.core import provenance
from rbp.core.arrays import Integers
from rbp.core.errors import DataError
from rbp.core.files import folder_beside, parse_json, swap_in, write_file, write_json
from rbp.core.paths import LADDER, label
from rbp.core.tables import checked, read_csv
from rbp.ladder.ranking import PRECISION
from rbp.ladder.recipe import Recipe
from rbp.ladder.runs import finished_runs, losses
from rbp.ladder.workspace import Workspace
from rbp.ranks.store import open_store

_REMEDY = "Restore the file: git checkout -- data/ladder."


def shipped_runs(folder: Path = LADDER) -> pd.DataFrame:
    """One row for each finished run, by size and seed: what runs.json says, and `first` (the rung's first seed).

    Columns name, rung, seed, layers, width, heads, size (S), parameters, steps, tokens, loss (nats, mean of the last
    steps), seconds, checksum, first, and outside (the share of the parameters that S does not count: the input and
    output embeddings). Raises DataError for a malformed file.
    """
    columns = ["name", "rung", "seed", "layers", "width", "heads", "size", "parameters", "steps", "tokens"]
    path = folder / "runs.json"
    try:
        table = pd.DataFrame(_json(path))[[*columns, "loss", "seconds", "checksum"]]
    except (ValueError, KeyError, TypeError):
        raise DataError("this is no list of runs", label(path), _REMEDY) from None
    table = table.sort_values(["size", "seed"], ignore_index=True)
    return table.assign(first=~table.duplicated("rung"), outside=1 - table["size"] / table["parameters"])


def shipped_text(folder: Path = LADDER) -> pd.DataFrame:
    """The text by part: use ("training" or "evaluation"), name, origin, licence, documents, characters, tokens.

    Also left_out, documents of a training source that share a long passage with an evaluation text, and held_out,
    those kept for evaluation. Raises DataError for a malformed file.
    """
    path = folder / "text.json"
    columns = ["name", "origin", "licence", "documents", "characters", "tokens"]
    try:
        content = _json(path)
        parts = [
            {"use": use, **{name: part[name] for name in columns}}
            | {"left_out": len(part.get("left_out", ())), "held_out": part.get("held_out", 0)}
            for use in ("training", "evaluation")
            for part in content[use]
        ]
    except (ValueError, KeyError, TypeError):
        raise DataError("this does not describe the ladder's text", label(path), _REMEDY) from None
    return pd.DataFrame(parts)


def _json(path: Path) -> Any:
    try:
        content = parse_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read the file: {error.strerror}", label(path), _REMEDY) from None
    provenance.note(path)
    return content


COUNTS = "token_counts.csv"
_NUMBER = pa.Column("int64", pa.Check.ge(0, error="must not be negative"))
_NO_COUNTS = "Make it of the training tokens: rbp ladder ship; or restore it: git checkout -- data/ladder."


def count_tokens(rows: npt.NDArray[np.uint16], vocabulary: int) -> pd.DataFrame:
    """Count the tokens of the training rows, an array of any shape: columns token, count."""
    counts = np.bincount(rows.ravel(), minlength=vocabulary)
    return pd.DataFrame({"token": np.arange(vocabulary), "count": counts})


def read_token_counts(folder: Path = LADDER) -> Integers:
    """The count of every token, shape (vocabulary,). Raises DataError if the file is missing or not such a table."""
    path = folder / COUNTS
    schema = pa.DataFrameSchema({"token": _NUMBER, "count": _NUMBER})
    table = checked(read_csv(path), schema, path, keys=["token"], remedy=_NO_COUNTS)
    if not np.array_equal(table["token"], np.arange(len(table))):
        raise DataError("the tokens must be numbered from 0 on, none left out", label(path), _NO_COUNTS)
    return table["count"].to_numpy(np.int64)


WEIGHTS = 12_000_000  # bytes in all; rungs that do not fit are left out
POINTS = 200  # of a learning curve


def assemble(place: Workspace, recipe: Recipe) -> list[dict[str, Any]]:
    """Write runs.json and training.csv from the runs' folders, token_counts.csv from what all of them read.

    Gives the entries of runs.json. Raises DataError if no run is finished, or the training tokens are missing.
    A run's learning curve has about POINTS points: each the mean loss of the steps since the one before.
    """
    entries, curves = [], []
    for which, about in finished_runs(place, recipe):
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
    seen = count_tokens(place.rows(recipe), recipe.text.vocabulary)
    write_json(place / "runs.json", entries)
    write_file(place / COUNTS, seen.to_csv(index=False))
    write_file(place / "training.csv", pd.concat(curves).to_csv(index=False))
    return entries


def ship(place: Workspace, recipe: Recipe, to: Path) -> list[str]:
    """Copy the finished rungs from the working folder into `to`; gives the models whose weights do not fit.

    Models are those of the first seeds, the smallest first, as long as the weights are WEIGHTS bytes at most. What `to`
    held before of the same names is replaced.
    """
    entries = assemble(place, recipe)
    total, left_out = 0, []
    with folder_beside(to / "models") as new:
        for (which, _), entry in zip(finished_runs(place, recipe), entries, strict=True):
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
        swap_in(new, to / "models")
    for name in ("ranks", "seeds"):
        if (place / name).is_dir():
            _copy_stores(place / name, to / name)
    with folder_beside(to / "tokenizer") as new:
        shutil.copytree(place / "tokenizer", new, dirs_exist_ok=True)
        swap_in(new, to / "tokenizer")
    for name in ("documents.csv", "text.json", "training.csv", COUNTS):
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
            write_json(new / path.parent.name / path.name, store.manifest)
            for part in store.parts:
                shutil.copy(part, new / path.parent.name / "parts")
            for beside in path.parent.glob("*.parquet"):  # see `rbp.ranks.entropies`
                shutil.copy(beside, new / path.parent.name)
        swap_in(new, to)
