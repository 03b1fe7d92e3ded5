"""Interactive figures: Plotly's frames under a slider, without animation, small enough for a page and a phone."""

from collections.abc import Mapping, Sequence
from typing import Any

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
