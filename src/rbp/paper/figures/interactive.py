"""Interactive figures: Plotly's frames under a slider, without animation, small enough for a page and a phone."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rbp.book.figure_style import LABELS
from rbp.core.errors import DataError
from rbp.paper.curves import shades

#: an axis that is not dragged, so that a finger on a phone scrolls the page
AXIS: dict[str, Any] = {"zeroline": False, "ticks": "outside", "fixedrange": True}


def with_slider(
    frames: Mapping[int, Sequence[Any]], *, start: int, prefix: str, plot: int, legend: int, left: int
) -> Any:
    """A Plotly figure of the traces of each stop, as many at each, and a slider over the stops; its axes are to be set.

    start: the stop that is shown first; prefix: stands before the current stop; plot, legend, left: heights of the plot
    and of its legend, and the left margin, in pixels.
    """
    import plotly.graph_objects as go

    at_once = {"mode": "immediate", "frame": {"duration": 0}, "transition": {"duration": 0}}
    steps = [{"label": str(stop), "method": "animate", "args": [[str(stop)], at_once]} for stop in frames]
    figure = go.Figure(
        frames[start],
        frames=[go.Frame(name=str(stop), data=data) for stop, data in frames.items()],
    )
    return figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 13},
        height=12 + plot + 190 + legend,
        margin={"l": left, "r": 16, "t": 12, "b": 190 + legend},
        legend={"x": 0, "y": -65 / plot, "yanchor": "top"},
        sliders=[
            {
                "active": list(frames).index(start),
                "steps": steps,
                "currentvalue": {"prefix": prefix, "font": {"size": 15}},
                "y": -(75 + legend) / plot,
                "yanchor": "top",
                "pad": {"t": 10},
            }
        ],
    )


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


def success_slider(counts: pd.DataFrame, *, start: int | None = None) -> Any:
    """Success against S, a line for each k, with a slider over N.

    counts: dataset, family, size, k, n, p, of one family on one dataset, n = 1 included. Points joined by lines are
    measured; dotted is what independence would give, RBP_k^N. `start` is shown first (default: the smallest).
    Returns a plotly Figure. Raises DataError for rows of several families or datasets.
    """
    import plotly.graph_objects as go

    if len(counts[["dataset", "family"]].drop_duplicates()) != 1:
        raise DataError("the slider shows one family on one dataset", "windows", "Select one of each.")
    stops, lines = (sorted(int(x) for x in counts[name].unique()) for name in ("n", "k"))
    single = counts[counts["n"] == 1].set_index(["size", "k"])["p"]
    colours = shades(lines)

    def pair(own: pd.DataFrame, line: int) -> list[Any]:
        alone = np.array([single.get(key, np.nan) for key in zip(own["size"], own["k"], strict=True)])
        independent = [float(f"{p:.4g}") for p in alone ** own["n"].to_numpy()]
        both = {"x": own["size"].tolist(), "visible": not own.empty, "legendgroup": str(line)}
        return [
            go.Scatter(
                y=[float(f"{p:.4g}") for p in own["p"]],
                mode="lines+markers",
                name=f"k = {line}",
                marker={"color": colours[line], "size": 7},
                line={"color": colours[line], "width": 1.6},
                text=own["model"].tolist(),
                hovertemplate="%{text}<br>S = %{x:.3s}<br>measured %{y:.3g}<extra></extra>",
                **both,
            ),
            go.Scatter(
                y=independent,
                mode="lines",
                line={"color": colours[line], "width": 1.2, "dash": "dot"},
                hovertemplate="if independent %{y:.3g}<extra></extra>",
                showlegend=False,
                **both,
            ),
        ]

    ordered = counts.sort_values("size")
    frames = {
        stop: [t for line in lines for t in pair(ordered[(ordered["n"] == stop) & (ordered["k"] == line)], line)]
        for stop in stops
    }
    figure = with_slider(
        frames,
        start=stops[0] if start is None else start,
        prefix="window of N tokens, N = ",
        plot=340,
        legend=24 * -(-len(lines) // 2),  # two names in a row on a phone
        left=60,
    )
    return figure.update_layout(
        xaxis=size_axis(counts["size"]),
        yaxis=AXIS | {"title": {"text": "share of windows that succeed", "standoff": 8}, "range": [-0.02, 1.02]},
        legend={"orientation": "h", "entrywidth": 88},
    )
