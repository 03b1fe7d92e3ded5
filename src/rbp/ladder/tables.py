"""The tables of `rbp.ladder.studies` as a chapter asks for them: the ladder's from their steps, others made at once."""

from collections.abc import Sequence

import pandas as pd

from rbp import steps
from rbp.counting.misses import clustering_table
from rbp.emergence.ranks import K, dependence
from rbp.ladder.studies import by_dataset, stores_of


def dependence_of(source: str, k: Sequence[int] = K) -> pd.DataFrame:
    """`emergence.ranks.dependence` of a folder of rank stores at k; of the "ladder" at K, from its step."""
    return steps.table("ladder_dependence") if source == "ladder" else dependence(stores_of(source), k)


def misses_of(source: str) -> pd.DataFrame:
    """`counting.misses.clustering_table` of each dataset of a folder of rank stores; of the "ladder" from its step."""
    if source == "ladder":
        return steps.table("ladder_misses")
    return pd.concat([clustering_table(stores) for stores in by_dataset(source)], ignore_index=True)
