"""Interactive figures: Plotly, without animation, small enough for a page and a phone."""

from typing import Any

import numpy as np
import pandas as pd

from rbp.errors import DataError, FitError
from rbp.figures.slider import AXIS, size_axis, slider_layout
from rbp.figures.style import family_style
from rbp.scaling import fit_power_law

#: matplotlib's markers (`figures.FAMILIES`) as Plotly calls them
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
