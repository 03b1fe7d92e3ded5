"""Figures of windows and of noise show the rows they are given."""

import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import DataError
from rbp.paper.figures.emergence import against_length, moved_curves, shades, success_panels
from rbp.paper.figures.interactive import success_slider
from rbp.paper.figures.noise import effects_shown, floors_shown, r_squared_panels, tokens_shown, tokens_slider

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


@pytest.mark.parametrize(("over", "other"), [("n", "k"), ("k", "n")])
def test_each_step_shows_what_was_measured_and_its_independent_twin(over: str, other: str) -> None:
    table = counts()
    figure = success_slider(table, over)
    single = table[table["n"] == 1].set_index(["size", "k"])["p"]
    for frame in figure.frames:
        own = table[table[over] == int(frame.name)]
        shown = [trace for trace in frame.data if trace.visible]
        measured = [y for trace in shown if "markers" in trace.mode for y in trace.y]
        dotted = [y for trace in shown if trace.mode == "lines" for y in trace.y]
        rows = own.sort_values([other, "size"])
        assert measured == pytest.approx(rows["p"].tolist(), rel=1e-3)
        expected = [single[size, k] ** n for size, k, n in zip(rows["size"], rows["k"], rows["n"], strict=True)]
        assert dotted == pytest.approx(expected, rel=1e-3, abs=1e-12)


def test_a_slider_shows_one_family() -> None:
    with pytest.raises(DataError, match="one family"):
        success_slider(pd.concat([counts(), counts().assign(family="Other")]), "n")


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


def test_a_fit_beyond_noise_is_filled() -> None:
    rows = [("wikipedia", "Toy", 1, 0.9, 0.98, 0.99, 0.999, "more than noise")]
    rows += [("wikipedia", "Toy", 10, 0.985, 0.98, 0.99, 0.999, "noise is enough")]
    names = ["dataset", "family", "k", "r_squared", "noise_low", "noise_median", "noise_high", "verdict"]
    (ax,) = r_squared_panels(pd.DataFrame(rows, columns=names)).single("Toy on Wikipedia").axes
    dots = [line for line in ax.get_lines() if line.get_markersize() == 6 and len(line.get_xdata())]
    assert [(line.get_xdata().tolist(), line.get_markerfacecolor() != "none") for line in dots] == [
        ([1], True),
        ([10], False),
    ]


def test_the_calculator_leaves_out_what_no_tokens_can_buy() -> None:
    table = pd.DataFrame({"k": 1, "half_width": [0.001, 0.01], "effect": 1.0, "tokens": [np.inf, 5000.0]})
    figure = tokens_slider(pd.concat([table, table.assign(k=10)]), start=10, used=300.0)
    assert [(frame.name, [list(trace.x) for trace in frame.data]) for frame in figure.frames] == [
        ("1", [[0.01]]),
        ("10", [[0.01]]),
    ]
    assert figure.layout.sliders[0].active == 1


def test_design_effects_are_medians_over_models_and_over_pairs() -> None:
    rows = [
        ("humaneval", None, 5, 10.0, 3.0, 2.0),
        ("humaneval", None, 5, 30.0, 5.0, 4.0),
        ("humaneval", "big", 5, 30.0, 7.0, 6.0),
        ("wikipedia", None, 9, 20.0, 1.0, 1.0),
        ("wikipedia", "big", 9, 20.0, 1.5, 1.2),
        ("wikipedia", "bigger", 9, 20.0, 2.5, 1.8),
        ("c4", None, 9, 20.0, 1.0, 1.0),  # one model: no pair, no row
    ]
    table = pd.DataFrame(rows, columns=["dataset", "other", "k", "misses", "effect", "effect_pieces"])
    shown = effects_shown(table.assign(rate=0.01, documents=3))["table"]
    assert shown["Domain"].tolist() == ["Wikipedia", "HumanEval"]
    assert shown["missed, %"].tolist() == [1.0, 1.0]
    assert shown.iloc[1, 3:].tolist() == [3, 20.0, 4.0, 3.0, 7.0, 6.0, 6.0]
    assert shown.iloc[0, 7:].tolist() == [2.0, 1.5, 1.8]


def test_each_design_effect_has_a_column() -> None:
    rows = [(p, e, 100 / p * e) for p in (0.5, 0.1) for e in (1.0, 3.0)]
    floor = pd.DataFrame(rows, columns=["precision", "effect", "floor"])
    shown = floors_shown(floor.assign(dataset="c4", family="Toy", tokens=1e4), level=0.9)["table"]
    assert shown.iloc[0, 3:].to_dict() == {
        "± 10%": 1000, "± 10%, effect 3": 3000, "± 50%": 200, "± 50%, effect 3": 600
    }  # fmt: skip
    needed = pd.DataFrame({"k": [1, 1, 10], "effect": [1.0, 3.0, 1.0], "tokens": [10.0, 30.0, 50.0]})
    needed = needed.assign(models=4, alpha=0.1, fitted=0.2, by_counting=0.1, half_width=0.01)
    shown = tokens_shown(needed, "Toy")["table"]
    assert shown["k"].tolist() == [1, 10]
    assert shown["tokens, independent"].tolist() == [10, 50]
    assert shown["tokens, effect 3"].tolist() == [30, pytest.approx(np.nan, nan_ok=True)]
