"""The interactive figures of success on N tokens in a row: a slider over N, and one over k."""

from typing import Any, Literal

import numpy as np
import pandas as pd

from rbp.errors import DataError
from rbp.figures.emergence import shades
from rbp.figures.slider import AXIS, size_axis, slider_layout

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
