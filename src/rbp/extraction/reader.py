"""Read rank stores: every part is checked against its checksum before a rank is believed."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as parquet

from rbp.errors import DataError
from rbp.extraction.manifest import MANIFEST, REDO, read
from rbp.files import sha256


@dataclass(frozen=True)
class RankStore:
    """A finished store.

    folder: where it lies; model, dataset, family: its labels; size: S; vocabulary: how many logits were
    counted; tokens: how many were ranked; manifest: all that is written about it.
    """

    folder: Path
    model: str
    dataset: str
    family: str
    size: int
    vocabulary: int
    tokens: int
    manifest: dict[str, Any]

    @property
    def parts(self) -> list[Path]:
        """The files with the ranks, in order."""
        return [self.folder / "parts" / name for name in sorted(self.manifest["parts"])]

    def problems(self) -> list[str]:
        """What is wrong with the parts: missing, truncated or altered; none if all is well."""
        found = []
        for name, part in sorted(self.manifest["parts"].items()):
            path = self.folder / "parts" / name
            if not path.is_file():
                found.append(f"{name} is missing")
            elif sha256(path) != part["sha256"]:
                found.append(f"{name} is truncated or altered")
        return found

    def ranks(self) -> pd.DataFrame:
        """One row per ranked token, by document and position: document, position, token, greater, equal, nll.

        Raises DataError if a part is missing, truncated or altered.
        """
        if wrong := self.problems():
            raise DataError(f"the store is damaged: {wrong[0]}", str(self.folder), REDO)
        table = arrow.concat_tables([parquet.read_table(path) for path in self.parts])
        tokens: pd.DataFrame = table.to_pandas()
        places = (tokens["document"].to_numpy(np.int64) << 32) + tokens["position"].to_numpy(np.int64)
        if (np.diff(places) > 0).all():  # as most stores are written
            return tokens
        return tokens.sort_values(["document", "position"], ignore_index=True)


def open_store(folder: str | Path) -> RankStore:
    """The finished store in `folder`. Raises DataError if it is none, not finished, or of another version."""
    folder = Path(folder)
    manifest = read(folder)
    if not manifest["complete"]:
        what = "the measurement is not finished"
        raise DataError(what, str(folder), "Run the command that made it again: it goes on where it stopped.")
    about = manifest["about"]
    return RankStore(
        folder=folder,
        model=about["model"],
        dataset=about["dataset"],
        family=about["family"],
        size=about["size"],
        vocabulary=about["vocabulary"],
        tokens=manifest["tokens"],
        manifest=manifest,
    )


def is_store(folder: Path) -> bool:
    """Whether a folder holds a manifest."""
    return (folder / MANIFEST).is_file()


def store_folders(paths: Iterable[str | Path]) -> list[Path]:
    """The stores among `paths`, each a store or a folder of stores. Raises DataError where there is none."""
    found = []
    for path in map(Path, paths):
        here = [path] if is_store(path) else sorted(p.parent for p in path.glob(f"*/{MANIFEST}"))
        if not here:
            raise DataError("there is no rank store", str(path), "Make one with rbp extract, or give its folder.")
        found += here
    return found
