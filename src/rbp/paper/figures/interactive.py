"""Interactive figures: Plotly, without animation, small enough for a page and a phone."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from rbp.book.figure_style import LABELS, family_style
from rbp.core.errors import DataError, FitError
from rbp.paper.figures.emergence import shades
from rbp.stats.power_law import fit_power_law

#: an axis that is not dragged, so that a finger on a phone scrolls the page
AXIS: dict[str, Any] = {"zeroline": False, "ticks": "outside", "fixedrange": True}


def slider_layout(
    stops: Sequence[int],
    owners: Sequence[int],
    *,
    start: int,
    prefix: str,
    plot: int,
    legend: int,
    left: int,
    changes: Mapping[int, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """The layout of a Plotly figure with a slider over `stops`, but for its axes.

    owners: for each trace the stop at which it is shown; prefix: stands before the current stop; plot, legend, left:
    heights of the plot and of its legend, and the left margin, in pixels; changes: of the layout, by stop.
    """
    steps = []
    for stop in stops:
        visible = {"visible": [stop == owner for owner in owners]}
        arguments = [visible] if changes is None else [visible, changes[stop]]
        steps.append({"label": str(stop), "method": "update", "args": arguments})
    return {
        "template": "none",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 13},
        "height": 12 + plot + 190 + legend,
        "margin": {"l": left, "r": 16, "t": 12, "b": 190 + legend},
        "legend": {"x": 0, "y": -65 / plot, "yanchor": "top"},
        "sliders": [
            {
                "active": stops.index(start),
                "steps": steps,
                "currentvalue": {"prefix": prefix, "font": {"size": 15}},
                "y": -(75 + legend) / plot,
                "yanchor": "top",
                "pad": {"t": 10},
            }
        ],
    }


def size_axis(sizes: "pd.Series[Any]") -> dict[str, Any]:
    """The logarithmic axis of S, somewhat wider than `sizes`."""
    low, high = np.log10([sizes.min(), sizes.max()])
    return AXIS | {
        "type": "log",
        "title": {"text": LABELS["size"]},
        "range": [low - 0.15, high + 0.15],
        "dtick": 1,
        "exponentformat": "power",
    }


#: matplotlib's markers (`figure_style.FAMILIES`) as Plotly calls them
SYMBOLS = {
    "s": "square",
    "^": "triangle-up",
    "o": "circle",
    "D": "diamond",
    "v": "triangle-down",
    "P": "cross",
    "X": "x",
    "*": "star",
}


def scaling_by_k(points: pd.DataFrame, *, start: int | None = None) -> Any:
    """The scaling plot of one dataset with a slider over k: −ln RBP_k against S, and each family's line.

    `points` is a measurement table of −ln RBP_k on one dataset. All models measured at a threshold are shown and
    fitted; the legend says how many, with α and R². The height of the axis is the same number of decades at every k,
    so that slopes compare; the slider moves the window. `start` is the k shown first (default: the smallest).
    Returns a plotly Figure. Raises DataError for no rows, or rows of several datasets.
    """
    import plotly.graph_objects as go

    if len(set(points["dataset"])) != 1:
        raise DataError("the slider shows one dataset", ", ".join(sorted(set(points["dataset"]))) or "no rows")
    families = sorted(set(points["family"]))
    thresholds = sorted(int(k) for k in points["k"].unique())
    start = thresholds[0] if start is None else start
    positive = points[points["value"] > 0]
    logs = {k: np.log10(positive.loc[positive["k"] == k, "value"].to_numpy()) for k in thresholds}
    decades = 1.25 * max(float(np.ptp(log)) for log in logs.values() if log.size) or 1.0
    traces: list[Any] = []
    owners: list[int] = []
    for k in thresholds:
        for family in families:
            own = positive[(positive["k"] == k) & (positive["family"] == family)].sort_values("size")
            if own.empty:
                continue
            traces += _traces(own, family, families, visible=k == start)
            owners += [k] * (len(traces) - len(owners))
    windows, changes = {}, {}
    for k in thresholds:
        middle = float(logs[k].min() + logs[k].max()) / 2 if logs[k].size else 0.0
        windows[k] = [middle - decades / 2, middle + decades / 2]
        changes[k] = {"yaxis.range": windows[k], "yaxis.title.text": _title(k)}
    ticks = [float(f"{lead}e{power}") for power in range(-8, 3) for lead in (1, 2, 5)]
    figure = go.Figure(traces)
    figure.update_layout(
        slider_layout(
            thresholds,
            owners,
            start=start,
            prefix="threshold k = ",
            plot=330,
            legend=20 * len(families),
            left=84,
            changes=changes,
        )
    )
    figure.update_layout(
        xaxis=size_axis(points["size"]),
        yaxis=AXIS
        | {
            "type": "log",
            "title": {"text": _title(start), "standoff": 8},
            "range": windows[start],
            "tickvals": ticks,
            "ticktext": [f"{tick:.8f}".rstrip("0").rstrip(".") for tick in ticks],
        },
        legend={"itemclick": False, "itemdoubleclick": False},
    )
    return figure


def _title(k: int) -> str:
    return f"−ln RBP<sub>{k}</sub>"


def _traces(own: pd.DataFrame, family: str, families: list[str], *, visible: bool) -> list[Any]:
    """The points of one family at one k, and its line where there is one."""
    import plotly.graph_objects as go

    colour, marker = family_style(family, families)
    name = f"{family}: {len(own)} models"
    lines = []
    try:
        fit = fit_power_law(own["size"], own["value"])
    except FitError:
        name += ", no fit"
    else:
        alpha = f"{fit.alpha:.3f}".replace("-", "−")
        name += f", α {alpha}, R² {fit.r_squared:.3f}" + (" (weak)" if fit.weak else "")
        ends = fit.predict([fit.size_min, fit.size_max])
        lines.append(
            go.Scatter(
                x=ends["size"].tolist(),
                y=[float(f"{value:.5g}") for value in ends["value"]],
                mode="lines",
                line={"color": colour, "width": 1.6, "dash": "dash" if fit.weak else "solid"},
                showlegend=False,
                hoverinfo="skip",
                visible=visible,
            )
        )
    dots = go.Scatter(
        x=own["size"].tolist(),
        y=[float(f"{value:.6g}") for value in own["value"]],
        mode="markers",
        name=name,
        text=own["model"].tolist(),
        hovertemplate="%{text}<br>S = %{x:.3s}<br>%{y:.4g}<extra></extra>",
        marker={"color": colour, "symbol": SYMBOLS.get(marker, "circle"), "size": 9},
        visible=visible,
    )
    return [dots, *lines]


_OTHER: dict[str, str] = {"n": "k", "k": "n"}
_NAME = {"n": "N", "k": "k"}
_PREFIX = {"n": "window of N tokens, N = ", "k": "threshold k = "}


def success_slider(counts: pd.DataFrame, over: Literal["n", "k"], *, start: int | None = None) -> Any:
    """Success against S with a slider over N (a line for each k) or over k (a line for each N).

    counts: dataset, family, size, k, n, p, of one family on one dataset, n = 1 included. Points joined by lines are
    measured; dotted is what independence would give, RBP_k^N. `start` is shown first (default: the smallest).
    Returns a plotly Figure. Raises DataError for rows of several families or datasets.
    """
    import plotly.graph_objects as go

    if len(counts[["dataset", "family"]].drop_duplicates()) != 1:
        raise DataError("the slider shows one family on one dataset", "windows", "Select one of each.")
    other = _OTHER[over]
    stops, lines = (sorted(int(x) for x in counts[name].unique()) for name in (over, other))
    start = stops[0] if start is None else start
    single = counts[counts["n"] == 1].set_index(["size", "k"])["p"]
    colours = shades(lines)
    traces: list[Any] = []
    owners: list[int] = []
    for stop in stops:
        for line in lines:
            own = counts[(counts[over] == stop) & (counts[other] == line)].sort_values("size")
            if own.empty:
                continue
            alone = np.array([single.get(key, np.nan) for key in zip(own["size"], own["k"], strict=True)])
            measured = [float(f"{p:.4g}") for p in own["p"]]
            independent = [float(f"{p:.4g}") for p in alone ** own["n"].to_numpy()]
            size = own["size"].tolist()
            shown = {"visible": stop == start, "legendgroup": str(line)}
            mark = {"color": colours[line], "size": 7}
            traces += [
                go.Scatter(
                    x=size,
                    y=measured,
                    mode="lines+markers",
                    name=f"{_NAME[other]} = {line}",
                    marker=mark,
                    line={"color": colours[line], "width": 1.6},
                    text=own["model"].tolist(),
                    hovertemplate="%{text}<br>S = %{x:.3s}<br>measured %{y:.3g}<extra></extra>",
                    **shown,
                ),
                go.Scatter(
                    x=size,
                    y=independent,
                    mode="lines",
                    line={"color": colours[line], "width": 1.2, "dash": "dot"},
                    hovertemplate="if independent %{y:.3g}<extra></extra>",
                    showlegend=False,
                    **shown,
                ),
            ]
            owners += [stop] * 2
    figure = go.Figure(traces)
    figure.update_layout(
        slider_layout(
            stops,
            owners,
            start=start,
            prefix=_PREFIX[over],
            plot=340,
            legend=24 * -(-len(lines) // 2),  # two names in a row on a phone
            left=60,
        )
    )
    figure.update_layout(
        xaxis=size_axis(counts["size"]),
        yaxis=AXIS | {"title": {"text": "share of windows that succeed", "standoff": 8}, "range": [-0.02, 1.02]},
        legend={"orientation": "h", "entrywidth": 88},
    )
    return figure
