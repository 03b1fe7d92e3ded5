"""Sums by step and document of a model that was degraded along paths (`companion.damage.run`).

A folder holds one model on one text: manifest.json (what was measured, how, and when it began) and sums.parquet, a row
for each step and document. It is written anew, whole, after every step, so that a run which was stopped goes on.
"""

import io
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from rbp import provenance
from rbp.errors import DataError
from rbp.io import label, parse_json, sha256, write_file, write_json
from rbp.store import full_disk

log = logging.getLogger(__name__)

THRESHOLDS = (1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 70, 100, 140, 200, 300, 500, 700, 1000)
#: from 0.5 to 4: with the slope at each, a cubic between neighbours is right to 1e-4 nats a token
TEMPERATURES = (0.5, 0.7071, 1.0, 1.4142, 2.0, 2.8284, 4.0)
CONTEXTS = (1, 2, 4, 8, 16, 32, 64)  # the quick ones first
STEPS: dict[str, tuple[float, ...]] = {
    "context": CONTEXTS,
    "depth": (),  # the model's own
    "bits": (8, 6, 4, 3, 2),
    "replaced": (0.02, 0.05, 0.1, 0.2, 0.4),
    "weights": (0.35, 0.6, 0.9, 1.3),
    "logits": (0.5, 0.8, 1.2, 2.0),
}
WHOLE, SMALLER, EARLIER = "whole", "parameters", "training"  # paths besides STEPS
SUMS, MANIFEST = "sums.parquet", "manifest.json"
CELL = ["path", "step", "draw", "model"]

_REMEDY = "Restore it, or measure it again: rbp paths run."


@dataclass(frozen=True)
class Paths:
    """The measurements of one model on one text: the manifest, and sums by step and document.

    sums: columns CELL, document, tokens, entropy (Σ, nats), hits_K for each of THRESHOLDS (tokens of rank ≤ K, by
    greater + equal), and for each of TEMPERATURES nll_T (Σ −ln p with all logits divided by T, nats) and slope_T (its
    derivative by 1/T).
    """

    manifest: dict[str, Any]
    sums: pd.DataFrame

    @property
    def title(self) -> tuple[str, str]:
        """Return the model and the text."""
        return self.manifest["about"]["model"], self.manifest["about"]["dataset"]


def read_paths(folder: Path) -> Paths:
    """Read what `run` left in a folder. Raises DataError where it is missing or damaged."""
    try:
        manifest = parse_json((folder / MANIFEST).read_bytes())
        sums = pd.read_parquet(folder / SUMS)
    except (OSError, ValueError):
        raise DataError("the folder holds no paths of a model", label(folder), _REMEDY) from None
    provenance.note(folder / MANIFEST, folder / SUMS)
    return Paths(manifest, sums)


class Growing:
    """The folder of one measurement, as it grows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts = [read_paths(folder).sums] if (folder / SUMS).exists() else []

    def begin(self, key: dict[str, Any], about: dict[str, Any], predictions: Path | None) -> None:
        """Write the manifest, if it is not there. predictions: a file whose checksum is kept."""
        if (self.folder / MANIFEST).exists():
            return
        begun = datetime.now(UTC).isoformat(timespec="seconds")
        registered = None if predictions is None else sha256(predictions)
        manifest = {"key": key, "about": about, "begun": begun, "predictions": registered}
        with full_disk(self.folder):
            write_json(self.folder / MANIFEST, manifest)

    def identify(self, path: str, step: float, model: str, weights: str) -> None:
        """Say which weights another model has: what was measured of it with others, or at another step, is dropped."""
        manifest = parse_json((self.folder / MANIFEST).read_bytes())
        models = manifest.setdefault("models", {})
        now = {"step": step, "weights": weights}
        if models.get(f"{path} {model}") == now:
            return
        before = [part[(part["path"] == path) & (part["model"] == model)] for part in self.parts]
        if any(map(len, before)):
            log.warning("%s has changed, or is at another step, since it was measured: it is measured again", model)
            self.parts = [part.drop(rows.index) for part, rows in zip(self.parts, before, strict=True)]
            self._write()
        models[f"{path} {model}"] = now
        with full_disk(self.folder):
            write_json(self.folder / MANIFEST, manifest)

    def lacks(self, path: str, step: float, draw: int, model: str) -> bool:
        """Return whether a step is still to be measured."""
        return not any((part[CELL] == [path, step, draw, model]).all(axis=1).any() for part in self.parts)

    def add(self, path: str, step: float, draw: int, model: str, sums: pd.DataFrame) -> None:
        """Keep what was measured at a step."""
        self.parts.append(sums.assign(path=path, step=step, draw=draw, model=model))
        self._write()

    def _write(self) -> None:
        table = pd.concat(self.parts, ignore_index=True)
        self.parts = [table[[*CELL, *table.columns.drop(CELL)]]]
        data = io.BytesIO()
        self.parts[0].to_parquet(data, index=False, compression="zstd", compression_level=19)
        with full_disk(self.folder):
            write_file(self.folder / SUMS, data.getvalue())
