"""What is kept of the ladder's training: the runs, their losses, and the text (data/ladder, see its README)."""

from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa

from rbp import published
from rbp.errors import DataError
from rbp.files import parse_json
from rbp.ladder.recipe import FOLDER
from rbp.tables import checked, label, read_csv

_REMEDY = "Restore the file: git checkout -- data/ladder."
_POSITIVE = pa.Check.gt(0, error="must be above 0")
_COUNT = pa.Column("int64", _POSITIVE)
_TRAINING = pa.DataFrameSchema(
    {
        "rung": pa.Column("str"),
        "seed": pa.Column("int64"),
        "step": _COUNT,
        "tokens": _COUNT,
        "loss": pa.Column("float64", _POSITIVE),
    }
)


def runs(folder: Path = FOLDER) -> pd.DataFrame:
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


def training(folder: Path = FOLDER) -> pd.DataFrame:
    """The losses: rung, seed, step, tokens (read so far), loss (nats), and size and first of its run.

    Raises DataError for a malformed file, and for losses of a run that runs.json does not list.
    """
    path = folder / "training.csv"
    table = checked(read_csv(path), _TRAINING, path, keys=("rung", "seed", "step"), remedy=_REMEDY)
    published.opened.add(label(path))
    whole = table.merge(runs(folder)[["rung", "seed", "size", "first"]], how="left", on=["rung", "seed"])
    if whole["size"].isna().any():
        unknown = whole[whole["size"].isna()].iloc[0]
        what = f"runs.json does not list the run of rung {unknown['rung']} with seed {unknown['seed']}"
        raise DataError(what, label(path), _REMEDY)
    return whole.astype({"size": "int64", "first": "bool"}).sort_values(["size", "seed", "step"], ignore_index=True)


def text(folder: Path = FOLDER) -> pd.DataFrame:
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
    published.opened.add(label(path))
    return content
