"""What the figures with a slider share: plot, legend and slider one below the other, and the axis of sizes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rbp.figures.style import LABELS

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
