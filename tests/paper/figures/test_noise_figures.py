"""Figures of noise show the rows they are given."""

import numpy as np
import pandas as pd
import pytest

from rbp.paper.figures.noise import scatter_panels, scatter_shown, tokens_slider
from rbp.paper.noise import BEYOND, OPEN


def judged() -> pd.DataFrame:
    rows = [(1, 0.02, 0.3, 0.1, 0.6, BEYOND), (10, 0.05, 0.0, 0.0, 0.2, OPEN)]
    table = pd.DataFrame(rows, columns=["k", "counting", "extra", "extra_low", "extra_high", "verdict"])
    table = table.assign(
        dataset="wikipedia", family="Toy", effect=1.2, effect_low=0.25, effect_high=4.0, n=4, misses=9.0
    )
    return table.assign(p=0.1, p_holm=0.2)


def test_a_fit_beyond_noise_is_filled() -> None:
    (ax,) = scatter_panels(judged()).single("Toy on Wikipedia").axes
    dots = [line for line in ax.get_lines() if line.get_markersize() == 6 and line.get_marker() not in ("", "None")]
    assert [line.get_ydata().tolist() for line in dots] == [[30.0], [0.5]]  # none: at the bottom
    assert [line.get_markerfacecolor() == "white" for line in dots] == [False, True]
    bars = [line.get_ydata() for line in ax.get_lines() if line.get_linewidth() == 5]
    assert bars[0] == pytest.approx([1.0, 4.0])  # per cent of counting, by the roots of the effects
    assert scatter_shown(judged())["table"].loc[0, "beyond it, %"] == "30.0 [10.0, 60.0]"


def test_the_calculator_leaves_out_what_no_tokens_can_buy() -> None:
    table = pd.DataFrame({"k": 1, "half_width": [0.001, 0.01], "effect": 1.0, "tokens": [np.inf, 5000.0]})
    figure = tokens_slider(pd.concat([table, table.assign(k=10)]), start=10, used=300.0)
    assert [(frame.name, [list(trace.x) for trace in frame.data]) for frame in figure.frames] == [
        ("1", [[0.01]]),
        ("10", [[0.01]]),
    ]
    assert figure.layout.sliders[0].active == 1
