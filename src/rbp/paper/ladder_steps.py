"""What chapters take from rank stores; of the shipped ladder it takes long, and is made once: steps of the workflow."""

from collections.abc import Sequence

import pandas as pd

from rbp.book import steps
from rbp.evidence import Source, open_source
from rbp.evidence.document_hits import GRID, as_table
from rbp.evidence.ranked import SHARES, large
from rbp.ladder import shipping
from rbp.paper.independence import K, dependence
from rbp.paper.noise import by_training_count, clustering_table
from rbp.ranks.store import RankStore


def make_hits() -> pd.DataFrame:
    """The ladder's hits at GRID and SHARES, as `document_hits.as_table` gives them."""
    ladder = open_source("ladder")
    return as_table(ladder.hits([*GRID, *(large(share, ladder.stores[0].vocabulary) for share in SHARES)]))


def make_dependence() -> pd.DataFrame:
    """`independence.dependence` of every rung on every domain."""
    return dependence(open_source("ladder").stores, K)


def make_misses() -> pd.DataFrame:
    """`noise.clustering_table` of every domain."""
    return _misses(open_source("ladder"))


def make_rare() -> pd.DataFrame:
    """`noise.by_training_count` of every domain."""
    counts = shipping.read_token_counts()
    tables = [by_training_count(stores, counts) for stores in _by_dataset(open_source("ladder"))]
    return pd.concat(tables, ignore_index=True)


def dependence_of(source: Source, k: Sequence[int] = K) -> pd.DataFrame:
    """`independence.dependence` of rank stores at k; of the ladder at K, from its step."""
    return steps.table("ladder_dependence") if source.is_exactly("ladder") else dependence(source.stores, k)


def misses_of(source: Source) -> pd.DataFrame:
    """`noise.clustering_table` of each dataset of rank stores; of the ladder from its step."""
    return steps.table("ladder_misses") if source.is_exactly("ladder") else _misses(source)


def _misses(source: Source) -> pd.DataFrame:
    return pd.concat([clustering_table(stores) for stores in _by_dataset(source)], ignore_index=True)


def _by_dataset(source: Source) -> list[list[RankStore]]:
    names = dict.fromkeys(store.dataset for store in source.stores)
    return [[store for store in source.stores if store.dataset == name] for name in names]
