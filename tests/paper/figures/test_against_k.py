"""The curves against k: which fits a line joins."""

import pandas as pd
import pytest

from rbp.evidence import open_source, select
from rbp.paper.figures.law import against_k
from rbp.stats.subsets import fit_thresholds


@pytest.fixture(scope="module")
def points() -> pd.DataFrame:
    return select(open_source("published").table, dataset="wikipedia", metric="neg_log_rbp")


def test_sets_of_models_are_never_joined(points: pd.DataFrame) -> None:
    """A line of the figure against k holds fits of one set of models, and does not cross a wide gap."""
    fits = fit_thresholds(points[points["family"] == "OPT"])
    (ax,) = against_k(fits, "alpha").single("wikipedia").axes
    lines = [line for line in ax.get_lines() if line.get_linestyle() in ("-", ":") and len(line.get_xdata()) > 1]
    heights = [sorted(line.get_ydata()) for line in lines[:-1]]  # the last is the line at 0
    groups = {
        "low": fits[(fits["models"] == "all") & (fits["k"] <= 100)],
        "high": fits[(fits["models"] == "all") & (fits["k"] > 100)],
    }
    assert heights == [sorted(group["alpha"]) for group in groups.values()]
    (common,) = [line for line in ax.get_lines() if line.get_markerfacecolor() == "none"]
    assert common.get_linestyle() == "None"
    assert sorted(common.get_ydata()) == sorted(fits[fits["models"] == "common"]["alpha"])
