"""What the chapters on emergence and on noise take from the ladder's ranks: three steps of the workflow."""

from pathlib import Path

import pandas as pd

from rbp import published
from rbp.counting.misses import by_training_count, clustering_table
from rbp.emergence.ranks import K, dependence
from rbp.extraction.reader import RankStore, open_store, store_folders
from rbp.ladder import seen
from rbp.ladder.recipe import FOLDER
from rbp.tables import label


def make_dependence() -> pd.DataFrame:
    """`emergence.ranks.dependence` of every rung on every domain."""
    return dependence(stores_of("ladder"), K)


def make_misses() -> pd.DataFrame:
    """`counting.misses.clustering_table` of every domain."""
    return pd.concat([clustering_table(stores) for stores in by_dataset("ladder")], ignore_index=True)


def make_rare() -> pd.DataFrame:
    """`counting.misses.by_training_count` of every domain."""
    counts = seen.read()
    return pd.concat([by_training_count(stores, counts) for stores in by_dataset("ladder")], ignore_index=True)


def stores_of(source: str | Path) -> list[RankStore]:
    """The rank stores of a folder, or of the "ladder": one of each rung and domain, its extra seeds left out.

    Raises DataError where there is none, or one is not finished.
    """
    stores = [open_store(folder) for folder in store_folders([FOLDER / "ranks" if source == "ladder" else source])]
    published.opened.update(f"{label(store.folder)}/manifest.json" for store in stores)
    return sorted(stores, key=lambda store: (store.dataset, store.size, store.model))


def by_dataset(source: str | Path) -> list[list[RankStore]]:
    """The stores of `stores_of`, a list for each dataset."""
    stores = stores_of(source)
    names = dict.fromkeys(store.dataset for store in stores)
    return [[store for store in stores if store.dataset == name] for name in names]
