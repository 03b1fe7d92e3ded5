"""Size and training, on made-up grids whose law is known, and on others' measurements, asked in more than one way."""

import numpy as np
import pytest
from made_grid import BUDGETS, additive, make

from companion.chapters import training


def product(size, tokens, k=1):
    return 40 * size**-0.05 * tokens**-0.15 / k**0.4


def with_seeds(text, noise):
    """A text's models with chance of their own, and the three smallest of the largest budget once more."""
    rng = np.random.default_rng(0)
    last = np.flatnonzero(text.models.budget == BUDGETS[-1])[:3]
    found = text.keep([*range(len(text.models)), *last])
    found.models["seed"] = [0] * len(text.models) + [1] * 3
    y = -np.log(found.hits / found.tokens[:, None, None])
    found.nll[:] *= np.exp(rng.normal(0, noise, len(found.models)))
    found.hits[:] = np.round(found.tokens[:, None, None] * np.exp(-y * np.exp(rng.normal(0, noise, y.shape[1:]))))
    return found


@pytest.mark.parametrize(("law", "right", "wrong"), [(additive, "sum", "product"), (product, "product", "sum")])
def test_the_shape_that_made_a_grid_passes_and_the_other_does_not(law, right, wrong):
    (text,) = make(law, families=("neox",), texts={"wikipedia": 3}, spread=0.0, tokens=40_000_000, ks=[1])
    table = training.separability_tests([with_seeds(text, 0.001)], [1], ["neox", "lstm"])  # there is no LSTM
    row = table.dropna(subset="k").iloc[0]
    assert row[f"p_{right}"] > 0.05
    assert row[f"p_{wrong}"] < 0.001
    assert row.low <= (1 if right == "sum" else 0) <= row.high
    assert (row.df_num, row.df_den) == (6 * 4, 3)
