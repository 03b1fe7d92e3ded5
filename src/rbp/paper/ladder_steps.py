"""What the chapters on independence and on noise take from the ladder's ranks: three steps of the workflow."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from rbp.book import steps
from rbp.core import tables
from rbp.core.paths import LADDER
from rbp.core.tables import label
from rbp.ladder import shipping
from rbp.paper.independence import K, dependence
from rbp.paper.noise import by_training_count, clustering_table
from rbp.ranks.store import RankStore, open_store, store_folders


def make_dependence() -> pd.DataFrame:
    """`independence.dependence` of every rung on every domain."""
    return dependence(stores_of("ladder"), K)


def make_misses() -> pd.DataFrame:
    """`noise.clustering_table` of every domain."""
    return pd.concat([clustering_table(stores) for stores in by_dataset("ladder")], ignore_index=True)


def make_rare() -> pd.DataFrame:
    """`noise.by_training_count` of every domain."""
    counts = shipping.read_token_counts()
    return pd.concat([by_training_count(stores, counts) for stores in by_dataset("ladder")], ignore_index=True)


def stores_of(source: str | Path) -> list[RankStore]:
    """The rank stores of a folder, or of the "ladder": one of each rung and domain, its extra seeds left out.

    Raises DataError where there is none, or one is not finished.
    """
    stores = [open_store(folder) for folder in store_folders([LADDER / "ranks" if source == "ladder" else source])]
    tables.opened.update(f"{label(store.folder)}/manifest.json" for store in stores)
    return sorted(stores, key=lambda store: (store.dataset, store.size, store.model))


def by_dataset(source: str | Path) -> list[list[RankStore]]:
    """The stores of `stores_of`, a list for each dataset."""
    stores = stores_of(source)
    names = dict.fromkeys(store.dataset for store in stores)
    return [[store for store in stores if store.dataset == name] for name in names]


def dependence_of(source: str, k: Sequence[int] = K) -> pd.DataFrame:
    """`independence.dependence` of a folder of rank stores at k; of the "ladder" at K, from its step."""
    return steps.table("ladder_dependence") if source == "ladder" else dependence(stores_of(source), k)


def misses_of(source: str) -> pd.DataFrame:
    """`noise.clustering_table` of each dataset of a folder of rank stores; of the "ladder" from its step."""
    if source == "ladder":
        return steps.table("ladder_misses")
    return pd.concat([clustering_table(stores) for stores in by_dataset(source)], ignore_index=True)
