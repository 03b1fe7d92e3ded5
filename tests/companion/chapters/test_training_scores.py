"""Scores of what laws forecast of longer training, counted by hand; parameters of the law that made a grid."""

import numpy as np
import pytest
from made_grid import make

from companion.chapters import training_scores


def test_scores_are_those_counted_by_hand():
    said = training_scores.read_forecasts()
    (text,) = make(families=("neox",), texts={"wikipedia": 4}, spread=0.0)
    text.models["budget"] = text.models["budget"].replace({8_000_000: 16_000_000})
    text.models["family"] = "neox-trials"
    table = training_scores.score(said, training_scores.select_longer_runs([text]))
    assert len(table) == 6 * 4 * 9
    own = text.keep(text.models["budget"] == 16_000_000)
    for row in table[table["k"] == 10].itertuples():
        (value,) = own.neg_log_rbp[own.models["rung"] == row.rung, 1]
        assert row.value == pytest.approx(value)
        assert row.inside == (row.low <= value <= row.high)
        assert row.error == pytest.approx(np.log(row.middle / value))
    some = table[table["law"] == "kaplan"]
    row = training_scores.summarize_laws(table).set_index("law").loc["kaplan"]
    assert (row["n"], row["inside"]) == (6 * 4, some["inside"].mean())
    assert row["error"] == pytest.approx(100 * np.expm1(np.sqrt(np.mean(some["error"] ** 2))))
