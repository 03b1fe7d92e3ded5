"""Lines in panels: each row is drawn in its panel and on its line, and named once."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PolyCollection

from rbp.figures.curves import curves, in_cells, melted, ramp, shades

ROWS = pd.DataFrame(
    [("humaneval", "B", 10, 3.0), ("humaneval", "B", 1, 2.0), ("wikipedia", "A", 1, 1.0), ("wikipedia", "B", 1, 4.0)],
    columns=["dataset", "line", "k", "value"],
)
LABELS = ("threshold k", "a value")


def drawn(panels, key):
    (ax,) = panels.single(key).axes
    return ax


def paths(ax):
    """The lines with more than markers, by colour."""
    lines = [line for line in ax.get_lines() if line.get_linestyle() not in ("None", "")]
    return {line.get_color(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in lines}


def names(ax):
    return [text.get_text() for text in ax.figure.legends[0].get_texts()]


def test_panels_are_in_the_order_of_the_datasets_and_lines_in_that_of_their_styles() -> None:
    panels = curves(ROWS, "k", "value", labels=LABELS, styles={"B": ("blue", "o"), "A": ("red", "s", "--")})
    assert list(panels.keys) == ["wikipedia", "humaneval"]
    ax = drawn(panels, "humaneval")
    assert (ax.get_title("left"), ax.get_xlabel(), ax.get_ylabel()) == ("HumanEval", *LABELS)
    assert paths(ax) == {"blue": ([1, 10], [2.0, 3.0])}, "in the order of x"
    assert names(ax) == ["B"], "what a panel lacks is not named in it"
    ax = drawn(panels, "wikipedia")
    assert names(ax) == ["B", "A"]
    assert {line.get_color(): line.get_marker() for line in ax.get_lines() if line.get_marker() != "None"} == {
        "blue": "o",
        "red": "s",
    }


def test_lines_are_named_by_their_column() -> None:
    numbers = ROWS.assign(n=[2, 2, 5, 20])
    assert names(drawn(curves(numbers, "k", "value", labels=LABELS, line="n"), "wikipedia")) == ["N = 5", "20"]
    models = ROWS.assign(model="Owner/" + ROWS["line"])
    ax = drawn(curves(models, "k", "value", labels=LABELS, line="model", ends=True), "wikipedia")
    assert [text.get_text() for text in ax.texts] == ["A", "B"]
    assert ax.figure.legends == []
    silent = curves(ROWS, "k", "value", labels=LABELS, styles={"A": ("red",), "B": ("blue",)})
    hidden = curves(ROWS.replace("A", "_A"), "k", "value", labels=LABELS, styles={"_A": ("red",), "B": ("blue",)})
    assert names(drawn(silent, "wikipedia")) == ["A", "B"]
    assert names(drawn(hidden, "wikipedia")) == ["B"]
    assert set(paths(drawn(hidden, "wikipedia"))) == {"red", "blue"}


def test_intervals_stand_beside_each_other_or_are_bands() -> None:
    rows = ROWS.assign(low=ROWS["value"] - 0.5, high=ROWS["value"] + [0.5, np.nan, 0.5, 0.5])
    ax = drawn(curves(rows, "k", "value", labels=LABELS), "wikipedia")
    bars = [bar for each in ax.collections if isinstance(each, LineCollection) for bar in each.get_segments()]
    assert [bar[:, 1].tolist() for bar in bars] == [[3.5, 4.5], [0.5, 1.5]]
    first, second = (bar[0, 0] for bar in bars)
    assert first * second == pytest.approx(1), "as far to the left of 1 as to the right"
    assert first < 1
    ax = drawn(curves(rows, "k", "value", labels=LABELS, band=True), "wikipedia")
    assert [isinstance(each, PolyCollection) for each in ax.collections] == [True, True]
    assert all(x == [1] for x, _ in paths(ax).values())


def test_fitted_curves_replace_the_lines_from_point_to_point() -> None:
    fitted = pd.DataFrame({"dataset": "humaneval", "line": "B", "k": [1, 5, 10], "value": [2.1, 2.5, 2.9]})
    rows = ROWS.assign(hollow=ROWS["k"] == 1)
    panels = curves(
        rows, "k", "value", labels=LABELS, styles={"B": ("blue",)}, fitted=[fitted.assign(weak=True)], ends=True
    )
    ax = drawn(panels, "humaneval")
    assert paths(ax) == {"blue": ([1, 5, 10], [2.1, 2.5, 2.9])}
    assert [line.get_linestyle() for line in ax.get_lines() if len(line.get_xdata()) == 3] == ["--"]
    faces = {tuple(line.get_xdata()): line.get_markerfacecolor() for line in ax.get_lines()}
    assert (faces[1,], faces[10,]) == ("none", "blue")
    assert paths(drawn(panels, "wikipedia")) == {}, "no fit, no line"


def test_a_fitted_curve_is_in_view_and_its_band_need_not_be() -> None:
    fitted = pd.DataFrame(
        {"dataset": "humaneval", "line": "B", "k": [1, 10], "value": [1.0, 5.0], "low": 0, "high": 99}
    )
    panels = curves(ROWS, "k", "value", labels=LABELS, styles={"B": ("blue",)}, fitted=[fitted])
    assert drawn(panels, "humaneval").get_ylim() == pytest.approx((1 - 0.32, 5 + 0.32))


def test_shared_limits_hold_all_that_is_drawn_anywhere() -> None:
    rows = ROWS.assign(low=ROWS["value"] - 1, high=ROWS["value"] + 1)
    panels = curves(rows, "k", "value", labels=LABELS, at=[-1], zone=(5.5, 6), ylim="shared")
    assert (
        drawn(panels, "wikipedia").get_ylim() == drawn(panels, "humaneval").get_ylim() == pytest.approx((-1.56, 6.56))
    )
    low, high = drawn(curves(ROWS, "k", "value", labels=LABELS, log="xy", ylim="shared"), "humaneval").get_ylim()
    assert (low, high) == pytest.approx((4**-0.08, 4**1.08))
    assert drawn(curves(ROWS, "k", "value", labels=LABELS, ylim=(0, None)), "humaneval").get_ylim()[0] == 0


def test_one_panel_has_no_title() -> None:
    panels = curves(ROWS, "k", "value", labels=LABELS, panel=None)
    assert list(panels.keys) == [""]
    assert drawn(panels, "").get_title("left") == ""


def test_tables_in_cells_and_melted() -> None:
    table = ROWS.assign(family=["Z", "Z", "Z", "A"], other=ROWS["value"] * 2)
    cells = in_cells(table)
    assert cells["cell"].unique().tolist() == ["A on Wikipedia", "Z on Wikipedia", "Z on HumanEval"]
    long = melted(cells, {"value": "one", "other": "two"}, "k", by=["cell"])
    assert long.groupby("line")["value"].sum().to_dict() == {"one": 10, "two": 20}
    assert set(long) == {"k", "cell", "line", "value"}


def test_colours_are_apart() -> None:
    assert len(set(shades(range(9)).values())) == 9
    assert len(set(ramp(7))) == 7
    assert ramp(2) == [ramp(7)[0], ramp(7)[-1]]
