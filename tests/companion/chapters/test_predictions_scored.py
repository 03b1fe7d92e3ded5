"""The scores against closed forms and a simulation; the outcomes against made-up families with known laws."""

import numpy as np
import pandas as pd
import pytest
from made_grid import BUDGETS, SIZES, TEXTS, additive, make
from scipy import integrate
from scipy.stats import norm

from companion.chapters import outcomes
from companion.chapters.appendix import predictions as study


def forecast(outcome, **columns):
    empty = dict.fromkeys(("probability", "naive", "middle", "low", "high", "naive_low", "naive_high"), np.nan)
    return pd.DataFrame([empty | {"level": 0.8, "outcome": outcome, "sure": False} | columns])


def number(outcome, middle=1.0, low=0.8, high=1.4, naive=(0.5, 1.5)):
    row = forecast(outcome, middle=middle, low=low, high=high, naive_low=naive[0], naive_high=naive[1])
    return study.score(row).iloc[0]


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
        event = study.score(forecast(happened, probability=0.9, naive=0.5)).iloc[0]
        assert (event.score, event.gain) == pytest.approx((np.log(p), np.log(p / 0.5)))
    assert study.score(forecast(np.nan, middle=1.0, low=0.8, high=1.4)).empty


def test_an_outcome_is_a_function_of_the_entry_s_fields_or_a_row_of_a_table():
    table = pd.Series({("a", 1): 5.0}).rename_axis(["dataset", "k"])
    fields = {"dataset": "a", "k": 1, "reason": "x"}
    assert study.find_outcome({"f": table}, "f", fields) == 5
    assert study.find_outcome({"f": lambda k: 3 * k}, "f", fields) == 3
    assert study.find_outcome({"f": lambda: False}, "f", fields) == 0
    assert np.isnan(study.find_outcome({"f": table}, "f", fields | {"k": 2}))


def test_outcomes_are_those_of_the_law_that_made_the_models():
    models = outcomes.small_models(make(texts=dict.fromkeys(TEXTS, 2), spread=0.0), {}, [])
    table = study.read_forecasts("ladders")
    elsewhere = ("", "ablation", "seed_scatter", "error_entropy_share", "self_alignment_share")  # of other models
    measured = study.measure(table[~table["function"].isin(elsewhere)], models)["outcome"]
    size = np.array(list(SIZES.values()), dtype=float)

    def alpha(budget, sizes=size):
        return -np.polyfit(np.log(sizes), np.log(additive(sizes, budget)), 1)[0]

    in_d = -np.polyfit(np.log(BUDGETS), np.log(additive(SIZES["150k"], np.array(BUDGETS))), 1)[0]
    y, x = np.log(additive(size, 8e6)), np.log(size)
    off = y - np.polyval(np.polyfit(x, y, 1), x)
    entropy = np.log(2 * np.exp(y) + 1)  # as the families are made
    expected = {
        "exponent.neox.wikipedia.1": alpha(8e6),
        "exponent_difference.lstm.neox.wikipedia.1": 0,
        "exponent_at_first_budget.neox.wikipedia.1": alpha(5e5),
        "exponent_change.neox.wikipedia.1": alpha(8e6) - alpha(5e5),
        "exponent_in_tokens.neox.wikipedia.1": in_d,
        "residual_step.10": off[2] - off[3],
        "residual_scatter.1": np.sqrt((off**2).sum() / 5),
        "curvature.neox.1": np.polyfit(x - x.mean(), y, 2)[0],
        "cross_entropy_difference.lstm.neox.1m.wikipedia": 0,
        "slope_in_cross_entropy.neox.wikipedia.1": np.polyfit(entropy, y, 1)[0],
        "exponent_grows": float(alpha(8e6) > alpha(5e5)),
        "lstm_is_lower": 0,
    }
    for name, value in expected.items():
        assert measured[f"ladders.{name}"] == pytest.approx(value, abs=1e-3 if "slope" in name else 1e-4), name
    assert measured["ladders.cross_entropy.neox.2.7m.wikipedia"] == pytest.approx(np.exp(entropy[-1]), rel=1e-3)
    assert np.isnan(measured["ladders.offset.lstm.neox.wikipedia.1.5.2"]), "no model has so high a cross-entropy"


def test_loss_terms_of_two_kinds_of_error_are_those_of_their_definition():
    errors, nll = np.array([0, 0, 0, 7]), np.array([0.1, 0.2, 0.3, 3.0])
    p, q = np.array([0.75, 0.25]), np.exp(-np.array([0.2, 3.0]))
    expected = [-(p @ np.log(p)), p @ np.log(p * q.sum() / q), -np.log(q.sum())]
    assert outcomes.loss_terms(errors, nll) == pytest.approx(expected)
