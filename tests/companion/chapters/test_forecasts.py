"""Summaries of forecasts and of other curves, against examples counted by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from companion.chapters import forecasts
from companion.stats import cells
from rbp.measurements import open_source, select


def test_an_exact_interval_scores_what_the_ledger_takes_for_good_and_a_wider_or_narrower_one_more():
    """By quadrature over normal errors of the logarithm whose median size is 5 per cent."""
    deviation, nodes = 0.05 / norm.ppf(0.75), np.linspace(-8, 8, 4001)
    value = np.exp(deviation * nodes)
    weight = norm.pdf(nodes) / norm.pdf(nodes).sum()

    def mean_score(width):
        half = width * deviation * norm.ppf(0.975)
        ends = (np.full(len(nodes), np.exp(sign * half)) for sign in (-1, 1))
        return float(weight @ forecasts.score_intervals(value, *ends, 0.95))

    assert mean_score(1) == pytest.approx(forecasts.SCORE, abs=0.5)
    assert min(mean_score(0.6), mean_score(1.6)) > mean_score(1) + 2


def test_every_cut_of_every_family_is_forecast_from_the_smaller_models():
    table = open_source("published").table
    points = select(table, metric="neg_log_rbp", k=[1], dataset=["wikipedia", "humaneval"])
    points = points[(points["dataset"] == "wikipedia") | (points["family"] == "GPT-2")]
    told = forecasts.forecast_every_cut(points, level=0.9)
    counted = told.groupby(["family", "hidden"]).size().to_dict()
    sizes = {"Pythia": 10, "OPT": 5, "Qwen2.5": 5}
    wanted = {(f, hidden): hidden for f, many in sizes.items() for hidden in range(1, many - 2)}
    assert counted == wanted | {("GPT-2", 1): 2}, "of four models on two datasets"
    # by hand: one line through the logarithms of the models that are seen
    for (dataset, family, hidden), rows in told.groupby(["dataset", "family", "hidden"]):
        own = select(points, dataset=[dataset], family=family).sort_values("size")
        small, large = own.iloc[:-hidden], own.iloc[-hidden:]
        slope, at_0 = np.polyfit(np.log(small["size"]), np.log(small["value"]), 1)
        times = large["size"].to_numpy() / small["size"].max()
        assert rows.sort_values("size")["ahead"].to_numpy() == pytest.approx(times)
        right = np.exp(at_0 + slope * np.log(large["size"].to_numpy()))
        assert rows.sort_values("size")["error"].to_numpy() == pytest.approx(right / large["value"].to_numpy() - 1)
    straight = select(points, family="OPT").assign(value=lambda t: t["size"] ** -0.1)
    assert forecasts.forecast_every_cut(straight, level=0.9)["error"].abs().max() < 1e-9


def test_a_zero_and_a_line_that_does_not_vary_leave_the_others_their_forecasts():
    sizes = np.array([10**6, 10**7, 10**8, 10**9, 10**10])
    lines = {"good": sizes**-0.1, "zero": [*sizes[:4] ** -0.1, 0.0], "flat": np.full(5, 0.5)}
    points = pd.concat(
        pd.DataFrame({"dataset": "d", "family": name, "k": 1, "model": list("abcde"), "size": sizes, "value": value})
        for name, value in lines.items()
    )
    made = forecasts.forecast_every_cut(points, level=0.95)
    assert made.groupby("family").size().to_dict() == {"good": 3, "zero": 1}
    assert made["error"].to_numpy() == pytest.approx(0, abs=1e-9)


def test_numbers_of_the_cuts_are_counted_family_by_family():
    rows = [("A", 1, -0.1, True), ("A", 1, 0.3, False), ("A", 2, -0.02, True)]
    rows += [("B", 1, 0.04, True), ("B", 2, 0.2, False)]
    made = pd.DataFrame(rows, columns=["family", "hidden", "error", "covered"]).assign(
        dataset="d",
        k=1,
        seen=[4, 4, 3, 4, 3],
        low=0.9,
        high=1.1,
        predicted=2.0,
        ahead=2.0,
        score=[7.0, 41.0, 9.0, 8.0, 90.0],
    )
    made = made.assign(floor=[np.nan, np.nan, 0.0, 0.5, 0.1], floor_error=[np.nan, np.nan, -0.3, 0.1, 0.1])
    values = forecasts.cut_statistics(made, "A")
    assert [values[f"cut.{name}.A.h1"] for name in ("score", "count", "optimistic")] == [24, 2, 1]
    assert [values[f"cut.{name}.A.h2"] for name in ("floored", "floor_optimistic", "floor_zero")] == [1, 1, 1]
    assert values["cut.floor_median.A.h2"] == pytest.approx(30)
    assert "cut.count.B.h2" not in values
    counts = [values[f"cuts.{of}.{name}"] for of in ("one", "all") for name in ("count", "optimistic")]
    assert counts == [3, 1, 5, 2]
    assert [values[f"cuts.{name}"] for name in ("made", "covering", "near", "sharp")] == [4, 2, 2, 3]
    assert values["cuts.width_max"] == pytest.approx(10)


def test_cross_entropy_is_forecast_of_the_same_models_by_the_same_law():
    """Two lines without noise but for the largest model, which is 10% and 30% off."""
    sizes = np.array([1e7, 3e7, 1e8, 3e8, 1e9, 3e9])
    off = np.array([1, 1, 1, 1, 1, 1.0])
    rows = []
    for metric, k, alpha, last in (("neg_log_rbp", 1, 0.1, 1.3), ("cross_entropy", None, 0.05, 1.1)):
        values = sizes**-alpha * np.where(sizes == sizes.max(), last, off)
        rows += [("d", "F", f"m{i}", s, metric, k, v) for i, (s, v) in enumerate(zip(sizes, values, strict=True))]
    table = pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "metric", "k", "value"])
    cut = {"holdout": 1, "holdout_few": 1, "level": 0.95}
    points = table[table["metric"] == "neg_log_rbp"].astype({"k": int})
    control = forecasts.forecast_cross_entropy(table, cells.forecasts(points, **cut), **cut)
    assert control[["error", "error_control"]].to_numpy() == pytest.approx(np.array([[1 / 1.3 - 1, 1 / 1.1 - 1]]))
    values = forecasts.control_statistics(control)
    assert (values["control.models"], values["control.optimistic"]) == (1, 1)
    assert values["control.error_median"] == pytest.approx(100 * (1 - 1 / 1.1))
    assert values["control.rbp_error_median"] == pytest.approx(100 * (1 - 1 / 1.3))
    assert forecasts.control_statistics(control.iloc[:0]) == {}
