"""The slider over k: each step shows the traces of its k, and no others."""

import pandas as pd
import pytest

from rbp.core.errors import DataError
from rbp.evidence import open_source, select
from rbp.paper.figures.interactive import scaling_by_k
from rbp.paper.figures.law import against_k
from rbp.stats.subsets import fit_thresholds


@pytest.fixture(scope="module")
def points() -> pd.DataFrame:
    return select(open_source("published").table, dataset="wikipedia", metric="neg_log_rbp")


def test_each_step_shows_its_own_points(points: pd.DataFrame) -> None:
    figure = scaling_by_k(points)
    assert [step.args[0] for step in figure.layout.sliders[0].steps] == [(frame.name,) for frame in figure.frames]
    for frame in figure.frames:
        own = points[points["k"] == int(frame.name)]
        shown = [trace for trace in frame.data if trace.visible and trace.mode == "markers"]
        drawn = sorted((text, y) for trace in shown for text, y in zip(trace.text, trace.y, strict=True))
        assert drawn == sorted((model, float(f"{y:.6g}")) for model, y in zip(own["model"], own["value"], strict=True))
        low, high = frame.layout.yaxis.range
        assert 10**low < own["value"].min() <= own["value"].max() < 10**high


def test_it_is_small(points: pd.DataFrame) -> None:
    assert len(scaling_by_k(points).to_json()) < 100_000


def test_one_dataset_only(points: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="one dataset"):
        scaling_by_k(pd.concat([points, points.assign(dataset="other")]))


def test_sets_of_models_are_never_joined(points: pd.DataFrame) -> None:
    """A line of the figure against k holds fits of one set of models, and does not cross a wide gap."""
    fits = fit_thresholds(points[points["family"] == "OPT"])
    (ax,) = against_k(fits, "alpha").single("wikipedia").axes
    lines = [line for line in ax.get_lines() if line.get_linestyle() in ("-", ":") and len(line.get_xdata()) > 1]
    heights = [sorted(line.get_ydata()) for line in lines[:-1]]  # the last is the line at 0
    groups = {
        "common": fits[fits["models"] == "common"],
        "low": fits[(fits["models"] == "all") & (fits["k"] <= 100)],
        "high": fits[(fits["models"] == "all") & (fits["k"] > 100)],
    }
    assert heights == [sorted(group["alpha"]) for group in groups.values()]
