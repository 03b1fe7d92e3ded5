"""What counting makes of fits at large k, on made counts and ranks."""

import numpy as np
import pandas as pd
import pytest
from toy_stores import make_store

from companion.chapters import noise
from companion.chapters.noise import BEYOND, ENOUGH, OPEN
from companion.stats.clustering import cluster_sums, log_design_effect
from rbp.errors import DataError, FitError

SIZES = np.geomspace(1e6, 1e9, 6)


def table(value_of, k=(1, 10), sizes=SIZES):
    rows = [("wikipedia", "Toy", each, int(size), value_of(size, each)) for each in k for size in sizes]
    return pd.DataFrame(rows, columns=["dataset", "family", "k", "size", "value"])


def tokens(count, basis="counted"):
    return pd.DataFrame({"dataset": ["wikipedia"], "family": ["Toy"], "tokens": [count], "basis": [basis]})


def effects(dataset="wikipedia", low=0.5, effect=1.0, high=2.0, what="scatter", rate=0.02):
    row = {"dataset": dataset, "what": what, "rate": rate, "effect": effect, "effect_low": low, "effect_high": high}
    return pd.DataFrame([row])


NONE = effects().iloc[:0]


def judged(points, count, clustered=NONE):
    return noise.judge_scatter(points, tokens(count), clustered, resamples=300)


def wobbling(by=1.2):
    points = table(lambda size, k: 0.02 * (size / 1e6) ** -0.2, k=(1,))
    return points.assign(value=points["value"] * np.where(np.arange(6) % 2, by, 1 / by))


def test_scatter_is_beyond_noise_or_noise_is_enough_or_it_is_open():
    row = judged(wobbling(), 1_000_000).iloc[0]
    assert (row["verdict"], row["mostly"]) == (BEYOND, False)
    assert row["extra_low"] < 0.2 < row["extra_high"]
    assert judged(wobbling(), 1_000)["verdict"].tolist() == [OPEN]  # not rejected is not enough
    sizes = np.geomspace(1e6, 1e9, 60)
    points = table(lambda size, k: 0.02 * (size / 1e6) ** -0.2, k=(1,), sizes=sizes)
    misses = np.random.default_rng(0).binomial(50_000, -np.expm1(-points["value"]))
    points["value"] = -np.log1p(-misses / 50_000)
    assert judged(points, 50_000)["verdict"].tolist() == [ENOUGH]
    assert judged(points[::12], 50_000)["verdict"].tolist() == [OPEN]


def test_a_verdict_holds_for_every_design_effect_of_the_interval():
    points = wobbling(1.05)
    alone = judged(points, 150_000).iloc[0]
    assert alone["verdict"] == BEYOND
    wide = judged(points, 150_000, effects(high=30.0)).iloc[0]
    assert (wide["verdict"], wide["p"], wide["effect_high"]) == (OPEN, alone["p"], 30.0)
    assert judged(points, 150_000, effects(high=1.1)).iloc[0]["verdict"] == BEYOND
    both = pd.concat([effects(), effects(rate=0.5, effect=7.0), effects("humaneval", 0.1, 3.0, 9.0)])
    assert noise.design_effects_at(both, "wikipedia", 0.3) == (7.0, 0.5, 2.0)  # its own, at the nearest rate
    assert noise.design_effects_at(both, "other", 0.03) == (2.0, 0.1, 9.0)  # the widest of all


def test_what_cannot_be_tested_is_left_out():
    points = table(lambda size, k: 1e-5 * (size / 1e6) ** -0.2 if k == 10 else 0.01)
    assert judged(points, 10_000)["k"].tolist() == [1]
    with pytest.raises(FitError, match="three models"):
        judged(points[points["k"] == 10], 10_000)
    with pytest.raises(DataError, match="number of tokens behind the values is not known"):
        noise.known_cells(tokens(10_000, "at most"))


def test_only_rising_misses_are_tested():
    points = table(lambda size, k: 0.01 * (size / 1e6) ** (0.1 if k == 10 else -0.1))
    (row,) = noise.find_rises(points, tokens(100_000), NONE).to_dict("records")
    assert (row["k"], row["misses_smallest"], row["beyond"]) == (10, round(100_000 * -np.expm1(-0.01)), True)
    assert row["trend_needed"] == pytest.approx((row["trend_z"] / 1.959964) ** 2, rel=1e-6)
    for high, beyond in ((row["trend_needed"] * 1.01, False), (row["trend_needed"] * 0.99, True)):
        found = noise.find_rises(points, tokens(100_000), effects(high=high, what="difference"))
        assert found["beyond"].tolist() == [beyond]


@pytest.fixture
def stores(tmp_path):
    rng = np.random.default_rng(3)
    first = rng.integers(0, 100, 1800)
    second = np.where(rng.random(1800) < 0.5, first, rng.integers(0, 100, 1800))
    ranks = {"a": first, "b": second}
    return [
        make_store(tmp_path / name, greater, [60] * 30, model=name, size=len(name), vocabulary=100)
        for name, greater in ranks.items()
    ]


def test_effects_are_means_over_models_and_pairs(stores):
    found = noise.clustering_table(stores, [0.1]).set_index("what")
    places, ranks = noise.align_ranks(stores)
    missed = ranks > found["k"].iloc[0]
    assert missed.mean() <= 0.1 < (ranks > found["k"].iloc[0] - 1).mean()

    def design_effect(values):
        return float(np.exp(log_design_effect(cluster_sums(values, places["document"]).sum(axis=0))))

    one, other = map(design_effect, missed.T)
    apart = design_effect(missed[:, 1].astype(float) - missed[:, 0])
    assert found["effect"].to_dict() == pytest.approx({"misses": np.sqrt(one * other), "difference": apart})
    assert found["effect"].between(found["effect_low"], found["effect_high"]).all()
