"""Where the files of a ladder that is being made are: its working folder (runs/ladders)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ladder.recipe import Recipe
from rbp.errors import DataError
from rbp.io import lock

STATE, ABOUT = "state.safetensors", "run.json"  # in a run's folder: where it stands, and what it came to


@dataclass(frozen=True)
class Workspace:
    """A ladder's folder."""

    folder: Path

    def __truediv__(self, name: str) -> Path:
        """A file or folder in it."""
        return self.folder / name

    def rows(self, recipe: Recipe) -> npt.NDArray[np.uint16]:
        """The training tokens. Raises DataError if they are missing, or made by another recipe."""
        return self._read(recipe, "rows.npy", recipe.text.tokens, "Make the rows again: rbp ladder data.")

    def more(self, recipe: Recipe, tokens: int) -> npt.NDArray[np.uint16]:
        """The training tokens that follow these. Raises as `rows`."""
        return self._read(recipe, "more.npy", tokens, "Remove it, and make it again: rbp ladder sweep.")

    def _read(self, recipe: Recipe, name: str, tokens: int, remedy: str) -> npt.NDArray[np.uint16]:
        path = self.folder / name
        try:
            rows: npt.NDArray[np.uint16] = np.load(path, allow_pickle=False)
        except (OSError, ValueError):
            raise DataError("the training tokens cannot be read", str(path), remedy) from None
        wanted = tokens // recipe.text.context, recipe.text.context + 1
        if rows.shape != wanted or rows.dtype != np.uint16:
            what = f"the training tokens are {rows.shape} of {rows.dtype}, and the recipe wants {wanted} of uint16"
            raise DataError(what, str(path), remedy)
        if rows.max() >= recipe.text.vocabulary:
            what = f"the training tokens go up to {rows.max()}, and the recipe has {recipe.text.vocabulary} tokens"
            raise DataError(what, str(path), remedy)
        return rows


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes off a folder; the system lets go of the lock when the process ends, however it ends.

    Raises DataError if another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as stream:
        if lock(stream) is False:
            what = "another process is working on it"
            raise DataError(what, str(folder), "Wait for it, or stop it; nothing is lost.")
        yield
