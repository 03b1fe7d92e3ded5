"""Summaries of forecasts and of other curves, against examples counted by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from companion.chapters import forecasts
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


def test_every_cut_of_a_family_is_forecast_from_the_smaller_models():
    """By hand: one line through the logarithms of the models that are seen."""
    points = select(open_source("published").table, metric="neg_log_rbp", k=[1], dataset="wikipedia", family="OPT")
    points = points.sort_values("size")
    made = forecasts.forecast_every_cut(points, level=0.9)
    assert made.groupby("hidden").size().to_dict() == {hidden: hidden for hidden in range(1, len(points) - 2)}
    for hidden, rows in made.groupby("hidden"):
        small, large = points.iloc[:-hidden], points.iloc[-hidden:]
        slope, at_0 = np.polyfit(np.log(small["size"]), np.log(small["value"]), 1)
        right = np.exp(at_0 + slope * np.log(large["size"].to_numpy()))
        rows = rows.sort_values("size")
        assert rows["ahead"].to_numpy() == pytest.approx(large["size"].to_numpy() / small["size"].max())
        assert rows["error"].to_numpy() == pytest.approx(right / large["value"].to_numpy() - 1)


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
