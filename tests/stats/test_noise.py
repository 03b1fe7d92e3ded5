"""Counting error: against simulated counts, and against what the published exact counts state."""

import numpy as np
import pandas as pd
import pytest

from rbp.stats import counting
from rbp.stats.cells import fit_table


@pytest.mark.parametrize("share", [0.3, 0.8, 0.999])
def test_counting_error_is_the_spread_of_simulated_counts(share: float) -> None:
    tokens = 200_000
    hits = np.random.default_rng(1).binomial(tokens, share, 20_000)
    spread = np.log(-np.log(hits / tokens)).std()
    assert counting.counting_error(-np.log(share), tokens) == pytest.approx(spread, rel=0.03)


def test_scatter_of_pure_counting_is_all_noise() -> None:
    """Points whose only scatter is binomial: the noise share is about 1, on the average of many families."""
    rng = np.random.default_rng(5)
    sizes, tokens = np.geomspace(1e7, 1e10, 8), 50_000
    rows = []
    for number in range(200):
        hits = rng.binomial(tokens, np.exp(-0.5 * sizes**-0.15))
        for size, hit in zip(sizes, hits, strict=True):
            rows.append(("d", f"F{number}", 10, int(size), -np.log(hit / tokens)))
    points = pd.DataFrame(rows, columns=["dataset", "family", "k", "size", "value"])
    behind = points[["dataset", "family"]].drop_duplicates().assign(tokens=tokens, basis="counted")
    table = counting.scatter_beside_counting(points, fit_table(points), behind)
    assert (1 / table["noise_share"]).mean() == pytest.approx(1, abs=0.1)
    assert table["r_squared_counting"].mean() == pytest.approx(table["r_squared"].mean(), abs=0.02)
