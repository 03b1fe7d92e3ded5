"""The working folder of a ladder that is being made (runs/ladders), and its files."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ladder.recipe import Recipe
from rbp.errors import DataError
from rbp.io import write_file

Rows = npt.NDArray[np.uint16]  # [rows, context + 1]
STATE, ABOUT = "state.safetensors", "run.json"  # in a run's folder: where it stands, and what it came to


@dataclass(frozen=True)
class Workspace:
    """A ladder's folder."""

    folder: Path

    def __truediv__(self, name: str) -> Path:
        """Return a file or folder in it."""
        return self.folder / name

    def rows(self, recipe: Recipe) -> Rows:
        """Read the training tokens. Raises DataError if they are missing, or made by another recipe."""
        return read_rows(self / "rows.npy", recipe.text.tokens // recipe.text.context, recipe)

    def more(self, recipe: Recipe, tokens: int) -> Rows:
        """Read the training tokens that follow these. Raises as `rows`."""
        return read_rows(self / "more.npy", tokens // recipe.text.context, recipe)


def read_rows(path: Path, count: int, recipe: Recipe) -> Rows:
    """Read `count` rows of a recipe's tokens. Raises DataError if they are missing, or made by another recipe."""
    remedy = "Remove the file, and give the same command again."
    try:
        rows: Rows = np.load(path, allow_pickle=False)
    except (OSError, ValueError):
        raise DataError("the tokens cannot be read", str(path), remedy) from None
    if rows.shape != (count, recipe.text.context + 1):
        fault = f"the tokens are {rows.shape}, and the recipe wants {(count, recipe.text.context + 1)}"
        raise DataError(fault, str(path), remedy)
    return rows


def write_rows(path: Path, rows: Rows) -> None:
    """Write rows of tokens as `read_rows` reads them, whole or not at all."""
    data = io.BytesIO()
    np.save(data, rows, allow_pickle=False)
    write_file(path, data.getvalue())


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON object; {} if it is not there, or damaged."""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
