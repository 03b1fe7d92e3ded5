"""How often intervals cover the truth, by simulation: few events, and pieces of one real text.."""

import numpy as np
import pandas as pd
import pytest

import rbp
from rbp.laws.resampling import independent_units, interval, mean, without_each

pytestmark = pytest.mark.long


@pytest.mark.parametrize("expected", [(1, 1), (3, 0.3)])
def test_bursts_of_a_few_events_are_covered(expected):
    """Events come three at a time in 13 documents. Without the unseen ones, 65% of the intervals cover 3 and 0.3."""
    rng, covered, documents, tokens = np.random.default_rng(0), [[], []], 13, 150
    hits = 0.9 * documents * tokens
    truth = np.log((hits + expected[0]) / (hits + expected[1]))
    for _ in range(500):
        bursts = np.column_stack(
            [rng.multinomial(rng.poisson(n / 3), np.full(documents, 1 / documents)) for n in expected]
        )
        sums = 0.9 * tokens + 3.0 * bursts
        for number, added in enumerate((sums, np.concatenate([sums, np.eye(2)]))):
            logs = np.log(without_each(added))
            differences = logs[:, 0] - logs[:, 1]
            differences[0] = np.log(sums[:, 0].sum() / sums[:, 1].sum())
            _, low, high = interval(differences, documents - 1)
            covered[number].append(low <= truth <= high)
    assert np.mean(covered[1]) > 0.97
    assert np.mean(covered[0]) < 0.7


def test_pieces_of_one_real_text_cover_the_whole():
    """Judgments of above 11,000 tokens, by two models: the difference is covered, the level in most of the cases."""
    stores = {each.model: each for each in rbp.open_source("ladder").stores if each.dataset == "auslegal"}
    large, small = (stores[f"neox-{name}-at-8m"].ranks() for name in ("2.7m", "390k"))
    both = large.assign(
        change=small["nll"] - large["nll"], hit=(large["greater"] + large["equal"] <= 10).astype(float), one=1.0
    )
    judgments = [each for _, each in both.groupby("document") if len(each) > 11000]
    rng, covered = np.random.default_rng(0), []
    for _ in range(300):
        judgment = judgments[rng.integers(len(judgments))]
        start = rng.integers(len(judgment) - 2000)
        piece = judgment.iloc[start : start + 2000]
        units, row = independent_units(piece), []
        for name in ("change", "nll", "hit"):
            _, low, high = units.interval(mean, piece[[name, "one"]])
            row.append(low <= judgment[name].mean() <= high)
        covered.append(row)
    share = pd.DataFrame(covered, columns=["change", "nll", "hit"]).mean()
    assert share["change"] > 0.88
    assert share.min() > 0.8
