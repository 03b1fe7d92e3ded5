"""The scores against closed forms and a simulation; the outcomes against made-up families with known laws."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from made_grid import BUDGETS, SIZES, additive, make
from scipy import integrate
from scipy.stats import binomtest, norm

from companion.chapters.appendix import predictions as study


def made(**columns):
    empty = {name: [None] for name in ("probability", "naive", "middle", "low", "high", "naive_low", "naive_high")}
    return pd.DataFrame({"kind": ["exponent"], "sure": [False]} | empty | {name: [v] for name, v in columns.items()})


def number(outcome, middle=1.0, low=0.8, high=1.4, naive=(0.5, 1.5)):
    row = made(middle=middle, low=low, high=high, naive_low=naive[0], naive_high=naive[1], outcome=outcome)
    return study.score(row.infer_objects(), 0.8).iloc[0]


def test_a_density_of_two_halves_has_a_tenth_beyond_each_end_and_sums_to_1():
    points = [np.linspace(*ends, 11) for ends in ((-1.0, 0.8), (0.8, 0.9999), (1.0, 1.4), (1.4, 4.0))]
    parts = [integrate.simpson([np.exp(number(x).score) for x in part], x=part) for part in points]
    assert parts == pytest.approx([0.1, 0.4, 0.4, 0.1], abs=2e-3)


def test_scores_of_numbers_and_events_are_log_probabilities():
    row = number(1.2)
    assert row.away == pytest.approx(0.2 / (0.4 / norm.ppf(0.9)))
    assert row.naive_score == pytest.approx(norm.logpdf(1.2, 1.0, 0.5 / norm.ppf(0.9)))
    assert (row.inside, row.naive_inside, number(1.41).inside, number(0.79).inside) == (1, 1, 0, 0)
    for happened, p in ((1.0, 0.9), (0.0, 0.1)):
        made_event = made(kind="event", probability=0.9, naive=0.5, outcome=happened)
        event = study.score(made_event.infer_objects(), 0.8).iloc[0]
        assert event.score == pytest.approx(np.log(p))
        assert event.gain == pytest.approx(np.log(p / 0.5))
        assert np.isnan(event.inside)


def test_so_few_intervals_inside_have_the_p_of_a_binomial_test():
    rows = pd.DataFrame([number(x) for x in [1.0] * 13 + [9.0] * 10])
    found = study.count_inside(rows, 0.8)
    assert [found[name] for name in ("intervals", "inside")] == [23, 13]
    assert found["p"] == pytest.approx(binomtest(13, 23, 0.8, alternative="less").pvalue)
    assert found["p"] == pytest.approx(0.009, abs=5e-4)
    assert found["better"] == sum(number(x).gain > 0 for x in [1.0] * 13 + [9.0] * 10)


@pytest.fixture(scope="module")
def result():
    table, level = study.read_predictions()
    no_stores = SimpleNamespace(stores=())
    findings = study.Findings(make(spread=0.0), {"neox": no_stores, "lstm": no_stores}, [])
    return study.measure_outcomes(table, findings), level


def test_what_is_measured_is_what_was_asked_for(result):
    table, _ = result
    size = np.array(list(SIZES.values()), dtype=float)

    def alpha(budget, sizes=size):
        return -np.polyfit(np.log(sizes), np.log(additive(sizes, budget)), 1)[0]

    def of(**wanted):
        own = table[np.logical_and.reduce([table[name] == value for name, value in wanted.items()])]
        assert len(own) == 1
        return own.outcome.item()

    assert of(kind="exponent", family="neox", k=1, dataset="wikipedia") == pytest.approx(alpha(8e6), abs=1e-4)
    assert of(kind="exponent_difference", family="lstm", k=1, dataset="wikipedia") == pytest.approx(0, abs=1e-4)
    wanted = {"kind": "budgets", "family": "neox"}
    assert of(**wanted, what="exponent in S at 0.5 M tokens") == pytest.approx(alpha(5e5), abs=1e-4)
    change = of(**wanted, what="exponent in S at 8 M tokens less that at 0.5 M")
    assert change == pytest.approx(alpha(8e6) - alpha(5e5), abs=1e-4)
    in_d = -np.polyfit(np.log(BUDGETS), np.log(additive(SIZES["150k"], np.array(BUDGETS))), 1)[0]
    assert of(**wanted, what="exponent in D from 0.5 to 8 M tokens at 150k") == pytest.approx(in_d, abs=1e-4)
    y = np.log(additive(size, 8e6))
    x = np.log(size)
    off = y - np.polyval(np.polyfit(x, y, 1), x)
    zigzag = of(kind="zigzag", what="residual of 59k less that of 150k, mean over the four texts")
    assert zigzag == pytest.approx(off[2] - off[3], abs=1e-4)
    wobble = table[(table.kind == "zigzag") & (table.k == 1)].outcome.item()
    assert wobble == pytest.approx(np.sqrt((off**2).sum() / 5), abs=1e-4)
    assert table[table.kind == "curvature"].outcome.item() == pytest.approx(np.polyfit(x - x.mean(), y, 2)[0], abs=1e-4)
    entropy = 2 * additive(SIZES["2.7m"], 8e6) + 1  # as the families are made
    assert of(kind="cross_entropy", rung="2.7m") == pytest.approx(entropy, rel=1e-3)
    assert of(kind="cross_entropy_difference", family="lstm") == pytest.approx(0, abs=1e-6)
    slope = np.polyfit(np.log(2 * np.exp(y) + 1), y, 1)[0]
    assert of(kind="slope_in_cross_entropy", family="neox", dataset="wikipedia") == pytest.approx(slope, abs=1e-3)


def test_what_cannot_be_tested_says_why(result):
    table, level = result
    left = table[table.outcome.isna()]
    assert set(left.untested) <= {study.NO_FAMILY, study.NO_SEEDS, study.NO_RUNG, study.NOT_REACHED}
    assert (left[left.family == "mamba2"].untested == study.NO_FAMILY).all()
    assert set(left[left.kind == "seeds"].untested) == {study.NO_SEEDS}
    found = study.score(table, level)
    assert len(found) + len(left) == len(table)
    assert study.score_kinds(table, found).tested.sum() == len(found)
    assert set(found[found.kind == "event"].outcome) <= {0.0, 1.0}
    assert not study.describe(table).duplicated().any()
