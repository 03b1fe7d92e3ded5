"""Do two factors act apart: exact where they do, p uniform under the truth, and the power found that made the table."""

import numpy as np
import pandas as pd
import pytest
from draws import loop_and_slow, may_be
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from companion.stats.separability import interaction, power_interval

ROWS, COLUMNS, AGAIN = 7, 5, 3  # a grid, and of three of its cells two more values each


def made(rng, inverse=lambda sums: sums, noise=0.01):
    """A table whose transform is u(row) + v(column) and noise; three cells are repeated twice."""
    u, v = 1 + np.sort(rng.uniform(size=ROWS))[::-1], np.sort(rng.uniform(size=COLUMNS))[::-1]
    sums = u[:, None] + v
    grid = sums + rng.normal(0, noise, sums.shape)
    again = [np.append(grid[i, -1], sums[i, -1] + rng.normal(0, noise, AGAIN - 1)) for i in range(3)]
    return inverse(grid), [inverse(each) for each in again]


def test_the_interaction_is_that_of_an_analysis_of_variance():
    grid, again = made(np.random.default_rng(0), np.exp)
    for power, y in ((1.0, grid), (0.0, np.log(grid))):
        row, column = np.indices(y.shape)
        long = pd.DataFrame({"row": row.ravel(), "column": column.ravel(), "y": y.ravel()})
        residual = anova_lm(ols("y ~ C(row) + C(column)", long).fit()).loc["Residual"]
        logs = again if power else [np.log(each) for each in again]
        within = np.mean([each.var(ddof=1) for each in logs])
        found = interaction(grid, again, power)
        assert (found.df_num, found.df_den) == (residual["df"], 3 * (AGAIN - 1))
        assert found.f == pytest.approx(residual["mean_sq"] / within, rel=1e-8)


@pytest.mark.parametrize("draws", loop_and_slow(15, 600))
def test_the_interval_holds_the_power_that_made_the_table(draws):
    held = 0
    for seed in range(draws):
        found = power_interval(*made(np.random.default_rng(seed), lambda s: s**2))  # y^½ is the sum
        held += found.low <= 0.5 <= found.high
    assert may_be(held, draws, 0.95, 0.95)
