import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import DataError, FitError, ParameterError
from rbp.paper.noise import BEYOND, ENOUGH, OPEN, design_effects_at, one_cell, rises, scatter_judged, tokens_for

SIZES = np.geomspace(1e6, 1e9, 6)


def table(value_of, k=(1, 10)):
    rows = [("wikipedia", "Toy", each, int(size), value_of(size, each)) for each in k for size in SIZES]
    return pd.DataFrame(rows, columns=["dataset", "family", "k", "size", "value"])


def tokens(count, basis="counted"):
    return pd.DataFrame({"dataset": ["wikipedia"], "family": ["Toy"], "tokens": [count], "basis": [basis]})


def effects(dataset="wikipedia", low=0.5, effect=1.0, high=2.0, what="scatter", rate=0.02):
    """A `clustering_table` with one design effect."""
    row = {"dataset": dataset, "what": what, "model": None, "rate": rate, "effect_pieces": effect}
    return pd.DataFrame([row | {"effect_pieces_low": low, "effect_pieces_high": high}])


NONE = effects().iloc[:0]


def judged(points, count, clustered=NONE, **options):
    return scatter_judged(points, tokens(count), clustered, **{"resamples": 300} | options)


def wobbling(by=1.2):
    points = table(lambda size, k: 0.02 * (size / 1e6) ** -0.2, k=(1,))
    return points.assign(value=points["value"] * np.where(np.arange(6) % 2, by, 1 / by))


def test_scatter_beyond_noise_is_seen_whatever_its_slope():
    for slope in (-0.2, 0.0, 0.2):
        points = wobbling().assign(value=lambda t, slope=slope: t["value"] * (t["size"] / 1e6) ** (slope + 0.2))
        row = judged(points, 1_000_000).iloc[0]
        assert (row["verdict"], row["mostly"]) == (BEYOND, False)
        assert row["extra_low"] < 0.2 < row["extra_high"]
    assert judged(wobbling(), 1_000)["verdict"].tolist() == [OPEN]  # not rejected is not enough


def test_noise_is_enough_only_where_the_interval_says_so():
    sizes = np.geomspace(1e6, 1e9, 60)
    rng = np.random.default_rng(0)
    misses = rng.binomial(50_000, -np.expm1(-0.02 * (sizes / 1e6) ** -0.2))
    points = pd.DataFrame({"dataset": "wikipedia", "family": "Toy", "k": 1, "size": sizes})
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
    least = judged(points, 20_000, effects(low=0.05)).iloc[0]
    assert (judged(points, 20_000).iloc[0]["mostly"], least["mostly"]) == (True, False)


def test_fits_of_a_range_are_corrected_together():
    points = pd.concat([wobbling(1.02).assign(k=k) for k in (1, 10, 10_000)])
    found = judged(points, 150_000).set_index("k")
    assert found["range"].tolist() == ["small", "small", "large"]
    p = found["p"].iloc[0]
    assert found["p_holm"].tolist() == pytest.approx([2 * p, 2 * p, p])


def test_the_effect_is_the_datasets_own_at_the_nearest_rate_or_the_widest_of_all():
    both = pd.concat([effects(), effects(rate=0.5, effect=7.0), effects("humaneval", 0.1, 3.0, 9.0)])
    assert design_effects_at(both, "wikipedia", 0.03) == (1.0, 0.5, 2.0)
    assert design_effects_at(both, "wikipedia", 0.3) == (7.0, 0.5, 2.0)
    assert design_effects_at(both, "other", 0.03) == (2.0, 0.1, 9.0)
    assert np.isnan(design_effects_at(both, "wikipedia", 0.03, "difference")).all()


def test_what_cannot_be_tested_is_left_out():
    points = table(lambda size, k: 1e-5 * (size / 1e6) ** -0.2 if k == 10 else 0.01, k=(1, 10))
    assert judged(points, 10_000)["k"].tolist() == [1]
    with pytest.raises(FitError, match="three models"):
        judged(points[points["k"] == 10], 10_000)
    with pytest.raises(DataError, match="how many tokens"):
        scatter_judged(points, tokens(10_000, "at most"), NONE)


def test_only_rising_misses_are_tested():
    points = table(lambda size, k: 0.01 * (size / 1e6) ** (0.1 if k == 10 else -0.1))
    found = rises(points, tokens(100_000), NONE)
    assert found["k"].tolist() == [10]
    row = found.iloc[0]
    assert row["misses_smallest"] == round(100_000 * -np.expm1(-0.01))
    assert row["trend_z"] > 1.96
    assert row["trend_needed"] == pytest.approx((row["trend_z"] / 1.959964) ** 2, rel=1e-6)
    assert row["beyond"]
    for high, beyond in ((row["trend_needed"] * 1.01, False), (row["trend_needed"] * 0.99, True)):
        found = rises(points, tokens(100_000), effects(high=high, what="difference"))
        assert found["beyond"].tolist() == [beyond]


def test_so_many_tokens_leave_just_the_error_that_was_wanted():
    points = table(lambda size, k: (size / 1e6) ** -0.1 / k)
    known = float("nan")
    for effect in (1.0, 4.0):
        needed = tokens_for(points, [0.01, 0.05], [effect], known).set_index(["k", "half_width"])["tokens"]
        used = needed[1, 0.05]
        left = tokens_for(points[points["k"] == 1], [0.05], [1.0], used)["by_counting"].iloc[0]
        assert left * np.sqrt(effect) == pytest.approx(0.05)
        assert needed[1, 0.01] == pytest.approx(25 * used)
    assert tokens_for(points, [0.01], [1.0], known)["by_counting"].isna().all()
    with pytest.raises(FitError, match="four sizes"):
        tokens_for(points[points["size"] < 1e7], [0.01], [1.0], known)
    four = points[points["size"].isin(sorted(points["size"].unique())[:4])]
    assert set(tokens_for(four, [0.01], [1.0], known)["models"]) == {4}


def test_one_cell_is_the_one_with_the_most_points_unless_one_is_named():
    points = pd.DataFrame({"dataset": ["c4", "c4", "wikipedia"], "family": ["A", "A", "B"], "k": [1, 2, 1]})
    assert one_cell(points)["k"].tolist() == [1, 2]
    assert one_cell(points, "B")["dataset"].tolist() == ["wikipedia"]
    with pytest.raises(ParameterError, match="no values of B on c4"):
        one_cell(points, "B", "c4")
