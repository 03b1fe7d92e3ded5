"""Lines in panels: each row is drawn in its panel and on its line, and named once."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PolyCollection

from rbp.figures.curves import curves

ROWS = pd.DataFrame(
    [("humaneval", "B", 10, 3.0), ("humaneval", "B", 1, 2.0), ("wikipedia", "A", 1, 1.0), ("wikipedia", "B", 1, 4.0)],
    columns=["dataset", "line", "k", "value"],
)
STYLES = {"B": ("blue", "o"), "A": ("red", "s", "--")}


def drawn(key, rows=ROWS, **options):
    panels = curves(rows, "k", "value", labels=("threshold k", "a value"), **options)
    (ax,) = panels.single(key).axes
    return ax


def paths(ax):
    """The lines with more than markers, by colour."""
    lines = [line for line in ax.get_lines() if line.get_linestyle() not in ("None", "")]
    return {line.get_color(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in lines}


def names(ax):
    return [text.get_text() for text in ax.figure.legends[0].get_texts()]


def test_each_row_is_on_its_line_in_its_panel() -> None:
    panels = curves(ROWS, "k", "value", labels=("", ""), styles=STYLES)
    assert list(panels.keys) == ["wikipedia", "humaneval"], "in the order of the datasets"
    ax = drawn("humaneval", styles=STYLES)
    assert paths(ax) == {"blue": ([1, 10], [2.0, 3.0])}, "in the order of x"
    assert names(ax) == ["B"], "what a panel lacks is not named in it"
    assert names(drawn("wikipedia", styles=STYLES)) == ["B", "A"]


def test_intervals_stand_beside_each_other_or_are_bands() -> None:
    rows = ROWS.assign(low=ROWS["value"] - 0.5, high=ROWS["value"] + [0.5, np.nan, 0.5, 0.5])
    ax = drawn("wikipedia", rows)
    bars = [bar for each in ax.collections if isinstance(each, LineCollection) for bar in each.get_segments()]
    assert [bar[:, 1].tolist() for bar in bars] == [[3.5, 4.5], [0.5, 1.5]]
    first, second = (bar[0, 0] for bar in bars)
    assert first < 1
    assert first * second == pytest.approx(1), "as far to the left of 1 as to the right"
    assert [isinstance(each, PolyCollection) for each in drawn("wikipedia", rows, band=True).collections] == [True] * 2
