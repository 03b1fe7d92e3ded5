"""Measurements of a reader's own, of every kind that chapters meet: a table, and a folder of rank stores."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from toy_stores import make_store


def table(
    *,
    datasets: Sequence[str] = ("news", "poems"),
    families: Sequence[str] = ("A", "B"),
    sizes: Sequence[float] = (1e7, 5e7, 2e8, 1e9, 4e9),
    thresholds: Mapping[int, float],
    entropy: bool = True,
    change: Callable[[pd.DataFrame], None] | None = None,
) -> pd.DataFrame:
    """A measurement table without numbers of tokens: power laws with the exponents `thresholds`, k → α, and scatter."""
    rng, rows = np.random.default_rng(3), []
    for dataset in datasets:
        for family, size in ((f, int(s * 1.7**i)) for i, f in enumerate(families) for s in sizes):
            values = [("neg_log_rbp", k, 2 * size**-alpha) for k, alpha in thresholds.items()]
            for metric, k, value in [*values, ("cross_entropy", None, 9 * size**-0.08)][: None if entropy else -1]:
                noise = np.exp(rng.normal(0, 0.01))
                rows.append((dataset, f"{family}-{size}", family, size, metric, k, value * noise))
    made = pd.DataFrame(rows, columns=["dataset", "model", "family", "size", "metric", "k", "value"])
    if change:
        change(made)
    return made


def stores(
    folder: Path,
    *,
    models: int = 6,
    documents: int = 30,
    datasets: Sequence[str] = ("wikipedia",),
    all_hits: bool = False,
    place: Callable[[int], str] = "store-{}".format,
) -> None:
    """Rank stores of one family under `folder`, at `place` for each model; `all_hits`: the largest is never wrong."""
    vocabulary, rng, lengths = 300, np.random.default_rng(1), [60] * documents
    for dataset in datasets:
        for i in range(models):
            near = np.exp(rng.normal(2.0 - 0.3 * i, 1.5, sum(lengths))).astype(int)
            far = rng.integers(0, vocabulary, sum(lengths))
            greater = np.where(rng.random(sum(lengths)) < 0.3 - 0.02 * i, far, near.clip(max=vocabulary - 1))
            if all_hits:
                greater = greater.clip(max=9) * (i < models - 1)
            about = {"model": f"m{i}", "dataset": dataset, "size": 10_000 * 4**i}
            home = folder / (place(i) if len(datasets) == 1 else f"{dataset}-{place(i)}")
            make_store(home, greater, lengths, **about, vocabulary=vocabulary, nll=5 * 0.9**i)
