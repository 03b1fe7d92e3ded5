"""Scores of what laws forecast of longer training, counted by hand; parameters of the law that made a grid."""

import numpy as np
import pandas as pd
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


def test_a_fair_guess_goes_on_as_the_last_doublings_went():
    """By hand: steps of −0.3, −0.1 and −0.2 in ln y; t of 2 degrees of freedom."""
    logs, budgets = np.array([1.0, 0.7, 0.6, 0.4]), [10**6 * 2**i for i in range(4)]
    about = {"family": "neox", "dataset": "d", "k": 1, "rung": "10k", "size": 10_000, "seed": 0}
    known = pd.DataFrame(about | {"training_tokens": budgets, "value": np.exp(logs)})
    runs = known.tail(1).assign(value=np.exp(0.1))
    runs = pd.concat([runs.assign(training_tokens=tokens) for tokens in training_scores.AHEAD])
    found = training_scores.fair_guess(known, runs).set_index("training_tokens")
    t = 1.8856180831641267  # the 0.9 quantile: √(32)/3
    for ahead, tokens in ((1, 16_000_000), (2, 32_000_000)):
        middle, half = 0.4 - 0.2 * ahead, t * 0.1 * np.sqrt(ahead + ahead**2 / 3)
        row = found.loc[tokens]
        assert np.log([row["low"], row["middle"], row["high"]]) == pytest.approx([middle - half, middle, middle + half])
        assert row["inside"] == (abs(0.1 - middle) <= half)
    assert training_scores.fair_guess(known.tail(2), runs).empty
