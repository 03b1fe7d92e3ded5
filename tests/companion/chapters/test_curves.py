"""Lines in panels: each row is drawn in its panel and on its line."""

import pandas as pd

from rbp.figures.curves import curves

ROWS = pd.DataFrame(
    [("humaneval", "B", 10, 3.0), ("humaneval", "B", 1, 2.0), ("wikipedia", "A", 1, 1.0), ("wikipedia", "B", 1, 4.0)],
    columns=["dataset", "line", "k", "value"],
)


def test_each_row_is_on_its_line_in_its_panel():
    panels = curves(ROWS, "k", "value", labels=("", ""), styles={"B": ("blue", "o"), "A": ("red", "s", "--")})
    assert list(panels.keys) == ["wikipedia", "humaneval"], "in the order of the datasets"
    (ax,) = panels.single("humaneval").axes
    lines = [line for line in ax.get_lines() if line.get_linestyle() not in ("None", "")]
    drawn = {line.get_color(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in lines}
    assert drawn == {"blue": ([1, 10], [2.0, 3.0])}, "in the order of x"
