"""Figures of what a study would cost."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from rbp.figures.style import FAMILIES, SPARE, Panels, label_line_ends, log_axis, one

_STYLES = [(style[0], style[1]) for style in (*FAMILIES.values(), *SPARE)]
_LINES = ("-", "--", ":", "-.")


def hours(table: pd.DataFrame, shards: int) -> Panels:
    """Hours against the number of GPUs: a panel for each dtype, and a line for each number of shards.

    table: columns dtype, shards, gpus, hours; shards: whose line is whole.
    """
    counts = [shards, *(count for count in sorted(table["shards"].unique()) if count != shards)]
    lowest, highest = float(table["hours"].min()), float(table["hours"].max())

    def draw(ax: Axes, dtype: str) -> None:
        ends = {}
        rows = table[table["dtype"] == dtype]
        for count, (colour, marker), line in zip(counts, _STYLES, _LINES, strict=False):
            mine = rows[rows["shards"] == count].sort_values("gpus")
            ax.plot(mine["gpus"], mine["hours"], color=colour, marker=marker, markersize=4, linestyle=line)
            words = f"{count} shard" + ("s" if count > 1 else "")
            ends[words] = (float(mine["gpus"].iloc[-1]), float(mine["hours"].iloc[-1]), colour)
        ax.set_ylim(lowest / 1.4, highest * 1.4)  # the same for all, to be compared
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set_xlabel("GPUs")
        ax.set_ylabel("hours for the whole study")
        ax.set_title(dtype)
        label_line_ends(ax, ends)

    return Panels(list(table["dtype"].unique()), draw)


def parts(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """The shares of the GPUs' time by what it is spent on, a bar for each dtype.

    tables: dtype -> columns part, hours.
    """

    def draw(ax: Axes) -> None:
        height = 0.8 / len(tables)
        for number, ((dtype, table), (colour, _)) in enumerate(zip(tables.items(), _STYLES, strict=False)):
            places = [place + (number - (len(tables) - 1) / 2) * height for place in range(len(table))]
            shares = table["hours"] / table["hours"].sum()
            ax.barh(places, shares, height=0.9 * height, color=colour, label=dtype)
            for place, share, value in zip(places, shares, table["hours"], strict=True):
                words = f"{value:.2g} h"
                ax.annotate(words, (share, place), (4, 0), textcoords="offset points", va="center", fontsize=9)
        ax.set_yticks(range(len(table)), table["part"])
        ax.invert_yaxis()
        ax.margins(x=0.12)
        ax.xaxis.set_major_formatter(PercentFormatter(1))
        ax.set_xlabel("share of the GPUs' time")
        ax.grid(visible=False, axis="y")
        ax.legend(frameon=False, loc="lower right")

    return one(draw, size=(5.8, 4.0))
