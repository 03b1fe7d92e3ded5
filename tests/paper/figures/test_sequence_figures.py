"""Figures of windows and of noise show the rows they are given."""

import numpy as np
import pandas as pd
import pytest

from rbp.paper.figures.emergence import against_length, independent_panels, moved_curves, shades, success_panels
from rbp.paper.figures.noise import scatter_panels, scatter_shown, tokens_panels
from rbp.paper.noise import BEYOND, OPEN

SIZES = [10**6, 10**7, 10**8]


def counts() -> pd.DataFrame:
    rows = [
        (
            "wikipedia",
            f"toy/{size}",
            "Toy",
            size,
            k,
            n,
            0.0 if n == 50 and size == 10**6 else (0.3 + 0.1 * i) ** (n / k),
        )
        for i, size in enumerate(SIZES)
        for k in (1, 10)
        for n in (1, 5, 50)
    ]
    return pd.DataFrame(rows, columns=["dataset", "model", "family", "size", "k", "n", "p"])


def test_points_stand_beside_their_independent_twins() -> None:
    table = counts()
    panels = independent_panels(table)
    single = table[table["n"] == 1].set_index(["size", "k"])["p"]
    assert list(panels.keys) == [5, 50]
    for n in panels.keys:
        (ax,) = panels.single(n).axes
        rows = table[table["n"] == n].sort_values(["k", "size"])
        measured = [y for line in ax.get_lines() if line.get_marker() == "o" for y in line.get_ydata()]
        dotted = [y for line in ax.get_lines() if line.get_linestyle() == ":" for y in line.get_ydata()]
        assert measured == rows["p"].tolist()
        assert dotted == pytest.approx([single[size, k] ** n for size, k in zip(rows["size"], rows["k"], strict=True)])


def test_points_without_success_are_hollow() -> None:
    laws = pd.DataFrame({"k": [1], "n": [1], "constant": [1.0], "alpha": [0.1]})
    (ax,) = success_panels(counts(), laws).single(1).axes
    hollow = [line for line in ax.get_lines() if line.get_markerfacecolor() == "none" and len(line.get_xdata())]
    assert [line.get_ydata().tolist() for line in hollow] == [[0.0]]
    (curve,) = [line for line in ax.get_lines() if line.get_linestyle() == "-" and len(line.get_xdata()) > 3]
    assert curve.get_ydata()[0] == pytest.approx(np.exp(-np.exp(1.0) * 1e6**-0.1))


def test_curves_of_equation_8_are_moved_and_not_sharper() -> None:
    (ax,) = moved_curves(0.3, [1, 100], 3.0).axes
    curves = [line for line in ax.get_lines() if len(line.get_xdata()) > 3]
    slopes = [np.gradient(line.get_ydata(), np.log(line.get_xdata())).max() for line in curves]
    assert slopes == pytest.approx([0.3 / np.e] * 2, rel=1e-2)


def test_every_line_has_its_shade_and_its_panel() -> None:
    table = counts().assign(value=lambda t: t["p"], low=np.nan, high=np.nan)
    table = table[table["size"] == 10**7]
    panels = against_length(table, "value", ylabel="p", reference=1.0)
    assert list(panels.keys) == ["Toy"]
    (ax,) = panels.single("Toy").axes
    lines = {line.get_color(): line.get_ydata().tolist() for line in ax.get_lines() if line.get_marker() == "o"}
    assert set(lines) == set(shades([1, 10]).values())
    assert lines[shades([1, 10])[1]] == pytest.approx(table[table["k"] == 1].sort_values("n")["value"].tolist())


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
    table = pd.DataFrame({"k": 1, "half_width": [0.001, 0.01, 0.1], "effect": 1.0, "tokens": [np.inf, 5000.0, 50.0]})
    panels = tokens_panels(pd.concat([table, table.assign(k=10), table.assign(effect=3.0)]), used=300.0)
    assert list(panels.keys) == ["design effect 1", "design effect 3"]
    (ax,) = panels.single("design effect 1").axes
    lines = [list(line.get_xdata()) for line in ax.get_lines() if line.get_linestyle() == "-"]
    assert [x for x in lines if x] == [[0.01, 0.1]] * 2
    assert [300.0, 300.0] in [list(line.get_ydata()) for line in ax.get_lines()]
