"""The parts that a source of measurements is joined from: a table, rank stores, or what another package brings."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import pandas as pd

from rbp import provenance
from rbp.errors import DataError
from rbp.io import canonical_json
from rbp.measurements.checkpoints import (
    CHECKPOINT,
    drop_repeated_measurements,
    split_by_checkpoint,
    without_copied_rows,
)
from rbp.measurements.counts import Counts, of_stores, store_table
from rbp.measurements.histograms import MeasuredRanks, histogram_of_store
from rbp.measurements.ranked import Ranked, usual
from rbp.measurements.table import read_table
from rbp.metric import TieRule
from rbp.store import MANIFEST, RankStore, open_store, store_folders

#: columns of counts of windows of n tokens
WINDOWS = ["dataset", "model", "family", "size", "k", "n", "successes", "windows", "p", "basis"]


@dataclass(frozen=True)
class Part(ABC):
    """A source of measurements by itself: it must give `table`, and may give stores, windows and histograms.

    name: as requested; folders: or files, what it is read from.
    """

    name: str
    folders: tuple[Path, ...]

    @abstractmethod
    def table(self) -> pd.DataFrame:
        """Return the measurement table."""

    #: its rows with a family for each time in training
    split_by_checkpoint = staticmethod(split_by_checkpoint)

    def stores(self) -> list[RankStore]:
        """Return the rank stores. Raises DataError for a source without, as the methods below do for theirs."""
        raise self._lacking("rank stores")

    def windows(self) -> pd.DataFrame:
        """Count the windows of n successive tokens that have every token in the top k: columns WINDOWS."""
        raise self._lacking("counts of windows")

    def histograms(self) -> list[MeasuredRanks]:
        """Return the measured ranks of each model on each dataset."""
        raise self._lacking("histograms of ranks")

    def tokens(self, points: pd.DataFrame) -> "pd.Series[float]":
        """Return how many tokens some rows of the measurement table were measured on; NaN where not known."""
        return points["tokens"].astype("Float64").astype(float)

    def _lacking(self, content: str, remedy: str = "Give rank stores, as rbp extract makes them.") -> DataError:
        return DataError(f"this source has no {content}", self.name, remedy)


class File(Part):
    """A CSV or Parquet file of the measurement table."""

    def table(self) -> pd.DataFrame:
        """Return what the file holds, but for copies."""
        return self._read

    @cached_property
    def _read(self) -> pd.DataFrame:
        return without_copied_rows(read_table(self.folders[0]), self.name)


@dataclass(frozen=True)
class Ranks(Part):
    """Rank stores, in one folder or several.

    protocol_and_length: those that are chosen, or None; ks: thresholds of the table beside the usual ones.
    """

    rule: TieRule
    protocol_and_length: tuple[str | None, int | None] = (None, None)
    ks: tuple[int, ...] = ()

    def opened(self) -> list[RankStore]:
        """Open all stores in the folders. Raises DataError for a folder that is not there."""
        for folder in self.folders:
            if not folder.is_dir():
                raise self.missing(folder)
        stores = [open_store(folder) for folder in store_folders(self.folders)]
        provenance.note(*(store.folder / MANIFEST for store in stores))
        return stores

    def missing(self, folder: Path) -> DataError:
        """Make the error for a folder that is not there."""
        return DataError("there is no such folder", str(folder), "Check the path.")

    @cached_property
    def measured(self) -> list[RankStore]:
        """Return the stores, one for each measurement."""
        return drop_repeated_measurements(self.opened(), *self.protocol_and_length)

    def stores(self) -> list[RankStore]:
        """Return one store for each measurement, checkpoints under names of their own."""
        rows = [
            {"family": store.family, "model": store.model, "size": store.size, **store.training.known}
            for store in self.measured
        ]
        names = split_by_checkpoint(pd.DataFrame(rows, columns=["family", "model", "size", *CHECKPOINT]))
        both = zip(self.measured, names["family"], names["model"], strict=True)
        return [replace(store, family=family, model=model) for store, family, model in both]

    def table(self) -> pd.DataFrame:
        """Return what is counted of the stores."""
        tables = [_table(*self._now(store), self.ks).assign(dataset=store.dataset) for store in self.measured]
        return pd.concat(tables, ignore_index=True)

    def windows(self) -> pd.DataFrame:
        """Count the windows of the stores."""
        counted = [
            _windows(*self._now(store)).assign(
                **{name: getattr(store, name) for name in ("dataset", "model", "family", "size")}, basis="counted"
            )
            for store in self.stores()
        ]
        return pd.concat(counted, ignore_index=True)[WINDOWS].astype({"successes": "int64", "windows": "int64"})

    def histograms(self) -> list[MeasuredRanks]:
        """Return the counts of every rank."""
        return [histogram_of_store(store, self.rule) for store in self.stores()]

    def counts(self, thresholds: Sequence[int]) -> list[Counts]:
        """Count each model on each text: `counts.of_stores`."""
        return of_stores(self.stores(), thresholds, self.rule)

    def _now(self, store: RankStore) -> tuple[Path, str, TieRule]:
        return store.folder, canonical_json(store.manifest), self.rule


# What is counted of a store, once. manifest: as it is now, so that a store that has changed is counted anew.


@lru_cache(maxsize=1024)
def _table(folder: Path, manifest: str, rule: TieRule, ks: tuple[int, ...]) -> pd.DataFrame:
    store = open_store(folder)
    return store_table(Ranked(store, rule), usual(store.vocabulary, ks))


@lru_cache(maxsize=1024)
def _windows(folder: Path, manifest: str, rule: TieRule) -> pd.DataFrame:
    return Ranked(open_store(folder), rule).windows()
