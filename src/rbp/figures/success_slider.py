"""The interactive figures of success on N tokens in a row: a slider over N, and one over k."""

from typing import Any, Literal

import numpy as np
import pandas as pd

from rbp.errors import DataError
from rbp.figures.emergence import shades
from rbp.figures.style import LABELS

_PLOT = 340  # height of the plot itself, in pixels
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
    steps = [
        {"label": str(stop), "method": "update", "args": [{"visible": [stop == owner for owner in owners]}]}
        for stop in stops
    ]
    span = np.log10([counts["size"].min(), counts["size"].max()])
    axis = {"zeroline": False, "ticks": "outside", "fixedrange": True}
    legend = 24 * -(-len(lines) // 2)  # pixels: two names in a row on a phone
    figure = go.Figure(traces)
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 13},
        height=12 + _PLOT + 190 + legend,
        margin={"l": 60, "r": 16, "t": 12, "b": 190 + legend},
        xaxis=axis
        | {
            "type": "log",
            "title": {"text": LABELS["size"]},
            "range": [span[0] - 0.15, span[1] + 0.15],
            "dtick": 1,
            "exponentformat": "power",
        },
        yaxis=axis | {"title": {"text": "share of windows that succeed", "standoff": 8}, "range": [-0.02, 1.02]},
        legend={"x": 0, "y": -65 / _PLOT, "yanchor": "top", "orientation": "h", "entrywidth": 88},
        sliders=[
            {
                "active": stops.index(start),
                "steps": steps,
                "currentvalue": {"prefix": _PREFIX[over], "font": {"size": 15}},
                "y": -(75 + legend) / _PLOT,
                "yanchor": "top",
                "pad": {"t": 10},
            }
        ],
    )
    return figure
