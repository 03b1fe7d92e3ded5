"""The scores against closed forms and a simulation; the outcomes against made-up families with known laws."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from made_grid import BUDGETS, SIZES, TEXTS, additive, make
from scipy import integrate
from scipy.stats import norm
from simulated import counts

from companion.chapters.appendix import predictions as study
from companion.chapters.families import first_ladder, with_ablations
from rbp.measurements.counts import Counts


def made(**columns):
    empty = {name: [None] for name in ("probability", "naive", "middle", "low", "high", "naive_low", "naive_high")}
    return pd.DataFrame({"kind": ["exponent"], "sure": [False]} | empty | {name: [v] for name, v in columns.items()})


def number(outcome, middle=1.0, low=0.8, high=1.4, naive=(0.5, 1.5)):
    row = made(middle=middle, low=low, high=high, naive_low=naive[0], naive_high=naive[1], outcome=outcome)
    return study.score(row.infer_objects(), 0.8).iloc[0]


def test_a_density_of_two_halves_has_a_tenth_beyond_each_end_and_sums_to_1():
    points = [np.linspace(*ends, 21) for ends in ((-1.0, 0.8), (0.8, 0.9999), (1.0, 1.4), (1.4, 4.0))]
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


def test_a_mark_is_filled_inside_its_interval_and_an_arrow_beyond_the_view():
    rows = pd.DataFrame({"label": "exponent", "away": [0.5, -2.0, 9.0], "inside": [1.0, 0.0, 0.0]})
    (ax,) = study.plot_scores({"ladders": rows}, 0.8).single("ladders").axes
    marks = [line for line in ax.get_lines() if line.get_marker() in ("o", ">", "<") and len(line.get_xdata())]
    shown = [(line.get_marker(), line.get_xdata().tolist(), line.get_markerfacecolor() == "none") for line in marks]
    assert shown == [("o", [0.5], False), ("o", [-2.0], True), (">", [4.0], True)]


def test_files_are_scored_by_hand():
    first = pd.DataFrame({"inside": [1.0, 0.0, np.nan], "naive_inside": [1.0, 1.0, np.nan], "gain": [0.5, -2.0, 0.1]})
    first = first.assign(fair_gain=[0.2, np.nan, np.nan], fair_inside=[0.0, np.nan, np.nan])
    (row,) = study.score_files({"one": first}, 0.8)["data"].to_dict("records")
    columns = ["intervals", "inside", "naive_inside", "better", "fair", "fair_inside", "fair_better"]
    assert [row[name] for name in columns] == [2, 1, 2, 1, 1, 0, 1]
    assert row["gain"] == pytest.approx(-1.4)


def test_events_and_extremes_are_counted_by_hand():
    table = pd.DataFrame({"kind": ["event", "event", "seeds"], "outcome": [1.0, 0.0, 0.3], "gain": [0.1, -0.4, 2.0]})
    table = table.assign(sure=[False, False, True], probability=[0.95, 0.5, np.nan], better=[True, False, True])
    assert study.summarize_events(table, 0.9) == {"events": 2, "events_happened": 1, "sure_tested": 2, "sure_right": 1}
    assert study.count_better(table) == 1
    assert study.name_extremes(table, pd.Series(["a", "b", "c"])) == {"worst": "b", "best": "c"}


@pytest.fixture(scope="module")
def result():
    table, level = study.read_predictions()
    return study.measure_outcomes(
        table, study.Findings(make(spread=0.0), {"neox": _NoStores(), "lstm": _NoStores()}, [])
    ), level


class _NoStores:
    stores = ()


def with_seeds(text: Counts) -> Counts:
    """The text of one document, two rungs of which were trained again twice, with these changes of ln(−ln RBP_1)."""
    one = text.of("neox").keep([0, 0, 0, 1, 1, 1])
    seeds = np.tile([0, 1, 2], 2)
    names = one.models["model"] + [f"-seed{seed}" if seed else "" for seed in seeds]
    away = np.array([0.0, 0.03, -0.01, 0.0, 0.01, -0.05])
    hits = np.round(1e7 * np.exp(-2 * np.exp(away)))[None, :, None]
    models = one.models.assign(model=names, seed=seeds)
    return replace(one, models=models, tokens=np.array([10**7]), hits=np.repeat(hits, 3, axis=2), nll=np.ones((1, 6)))


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


def test_seeds_are_the_root_mean_square_of_what_they_move():
    table, _ = study.read_predictions()
    found = study.measure_outcomes(table, study.Findings([with_seeds(text) for text in make(spread=0.0)], {}, []))
    own = found[found.kind == "seeds"].set_index(["seed", "dataset"]).outcome
    assert own[1, "wikipedia"] == pytest.approx(np.sqrt((0.03**2 + 0.01**2) / 2), rel=1e-3)
    assert own[2, "wikipedia"] == pytest.approx(np.sqrt((0.01**2 + 0.05**2) / 2), rel=1e-3)


def test_an_ablation_is_what_it_moves_on_its_text():
    hits = np.array([round(1e7 * np.exp(-2 * np.exp(y))) for y in (0.0, 0.04)])
    models, sizes = ("ladder-150k", "ladder-150k-8"), np.array([150_080, 150_080])
    one = counts(models, sizes, [10], np.array([10**7]), hits[None, :, None], np.ones((1, 2)), dataset="auslegal")
    table, _ = study.read_predictions()
    found = study.Findings(make(spread=0.0), {"neox": _NoStores(), "lstm": _NoStores()}, [one])
    own = study.measure_outcomes(table, found).query("kind == 'ablation'").set_index("run")
    assert own.outcome["150k-8"] == pytest.approx(0.04, abs=1e-5)
    assert own.untested["59k-40"] == study.NO_RUNG


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


def test_what_lacks_a_model_that_it_speaks_of_is_untested():
    texts = make(spread=0.0, texts=dict.fromkeys(TEXTS, 3))
    some = texts[0].models
    lstm, large = some.family == "lstm", some.model.str.contains("2.7m") & (some.budget < BUDGETS[-1])
    texts = [text.keep(~large & ~(lstm & some.model.str.contains("1m-at"))) for text in texts]
    table, _ = study.read_predictions()
    found = study.measure_outcomes(table, study.Findings(texts, {"neox": _NoStores(), "lstm": _NoStores()}, []))
    gone = found[found.untested == study.NO_RUNG]
    assert gone.outcome.isna().all()
    assert set(gone[gone.kind == "exponent"].family) == {"lstm"}
    assert len(gone[gone.kind == "exponent_difference"]) == 4
    # of the budgets that at 0.5 M tokens lacks neox's largest, that of D at 150k does not
    assert len(gone[(gone.kind == "budgets") & (gone.family == "neox")]) == 2
    assert not (gone.kind == "zigzag").any()
    lower = found[found.what == "the LSTM of 1m has a lower CE than neox of 1m on wikipedia"]
    assert lower.untested.item() == study.NO_RUNG


def test_at_equal_cross_entropy_nothing_is_taken_from_outside():
    y, entropy = np.array([2.0, 1.0]), np.array([5.0, 4.0])
    assert study.at_cross_entropy(y, entropy, 4.25) == pytest.approx(1.25)
    assert np.isnan(study.at_cross_entropy(y, entropy, 5.01))


def test_the_shipped_ablations_stand_beside_their_rungs():
    texts = first_ladder(10)
    for one, first in zip(with_ablations(texts), texts, strict=True):
        assert one.names == ["ladder-59k", "ladder-59k-40", "ladder-150k", "ladder-150k-8"]
        places = [first.names.index(name) for name in one.names[::2]]
        np.testing.assert_array_equal(one.hits[:, ::2], first.hits[:, places])
        np.testing.assert_array_equal(one.nll[:, ::2], first.nll[:, places])


def test_the_terms_of_cross_entropy_are_summed_error_by_error():
    rng = np.random.default_rng(3)
    errors, nll = rng.integers(0, 6, 50), rng.exponential(3.0, 50)
    p = {e: np.mean(errors == e) for e in set(errors.tolist())}
    q = {e: np.exp(-nll[errors == e].mean()) for e in p}
    c = sum(q.values())
    terms = [-sum(p[e] * np.log(p[e]) for e in p), sum(p[e] * np.log(p[e] * c / q[e]) for e in p), -np.log(c)]
    assert study.loss_terms(errors, nll) == pytest.approx(terms)
    assert study.loss_terms(errors, nll).sum() == pytest.approx(nll.mean())
