import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import DataError, FitError, ParameterError
from rbp.paper.noise import expected_r_squared, floors, one_cell, rises, tokens_for
from rbp.stats import cells

SIZES = np.geomspace(1e6, 1e9, 6)


def table(value_of, k=(1, 10)):
    rows = [("wikipedia", "Toy", each, int(size), value_of(size, each)) for each in k for size in SIZES]
    return pd.DataFrame(rows, columns=["dataset", "family", "k", "size", "value"])


def tokens(count, basis="counted"):
    return pd.DataFrame({"dataset": ["wikipedia"], "family": ["Toy"], "tokens": [count], "basis": [basis]})


def judged(points, count, **options):
    return expected_r_squared(points, cells.fit_table(points), tokens(count), **options)


def test_a_measured_law_is_what_noise_gives():
    """Binomial measurements of an exact law: about one in forty is called more than noise."""
    rng = np.random.default_rng(0)
    verdicts = []
    for _ in range(60):
        points = table(lambda size, k: 0.02 * (size / 1e6) ** -0.2, k=(1,))
        misses = rng.binomial(50_000, -np.expm1(-points["value"]))
        points["value"] = -np.log1p(-misses / 50_000)
        verdicts += judged(points, 50_000, resamples=300)["verdict"].tolist()
    assert verdicts.count("more than noise") <= 6


def test_scatter_beyond_noise_is_seen():
    wobble = np.where(np.arange(6) % 2, 1.2, 1 / 1.2)
    points = table(lambda size, k: 0.02 * (size / 1e6) ** -0.2, k=(1,))
    points["value"] *= wobble
    assert judged(points, 1_000_000)["verdict"].tolist() == ["more than noise"]
    assert judged(points, 5_000)["verdict"].tolist() == ["noise is enough"]


def test_without_misses_there_is_no_test():
    points = table(lambda size, k: 1e-5 * (size / 1e6) ** -0.2, k=(1,))
    assert judged(points, 10_000)["verdict"].tolist() == ["no test"]
    with pytest.raises(DataError, match="how many tokens"):
        expected_r_squared(points, cells.fit_table(points), tokens(10_000, "at most"))


def test_only_rising_misses_are_tested():
    points = table(lambda size, k: 0.01 * (size / 1e6) ** (0.1 if k == 10 else -0.1))
    found = rises(points, tokens(100_000))
    assert found["k"].tolist() == [10]
    row = found.iloc[0]
    assert row["misses_smallest"] == round(100_000 * -np.expm1(-0.01))
    assert row["trend_z"] > 1.96
    assert row["trend_needed"] == pytest.approx((row["trend_z"] / 1.959964) ** 2, rel=1e-6)


def test_floors_fall_with_tokens_and_rise_with_the_effect():
    both = pd.concat([tokens(10_000), tokens(1_000_000).assign(family="Other")])
    found = floors(both, (0.5,), (1.0, 4.0)).set_index(["family", "effect"])["floor"]
    assert found["Other", 1.0] < found["Other", 4.0] < found["Toy", 1.0] < found["Toy", 4.0]
    assert (floors(both, (0.5,), (1.0, 4.0), level=0.9)["floor"].to_numpy() < found.to_numpy()).all()


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


def test_one_cell_is_the_one_with_the_most_points_unless_one_is_named():
    points = pd.DataFrame({"dataset": ["c4", "c4", "wikipedia"], "family": ["A", "A", "B"], "k": [1, 2, 1]})
    assert one_cell(points)["k"].tolist() == [1, 2]
    assert one_cell(points, "B")["dataset"].tolist() == ["wikipedia"]
    with pytest.raises(ParameterError, match="no values of B on c4"):
        one_cell(points, "B", "c4")
