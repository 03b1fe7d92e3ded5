"""Figures that explain the metric: distributions with a marked truth, and the distribution function of the rank."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbp.figures.style import INK, Panels, label_line_ends, log_axis, one

#: the truth, and all other tokens
TRUTH, OTHER = "#D55E00", "#8A97A6"
#: lines that are no families: one colour and dash each
LINES = (("#2A7FC0", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#B8579A", ":"))


def distributions(tokens: pd.DataFrame, *, k: int | None = None) -> Panels:
    """Bars of probability, the most probable first: one panel for each `panel`.

    `tokens` has panel, token, probability, truth (whether it is the ground truth). The truth is coloured and its rank
    written beside it. With `k`, a line closes the top k.
    """

    def draw(ax: Axes, panel: str) -> None:
        own = tokens[tokens["panel"] == panel].sort_values("probability", ascending=False, kind="stable")
        place = np.arange(1, len(own) + 1)
        colours = [TRUTH if truth else OTHER for truth in own["truth"]]
        ax.barh(place, own["probability"], color=colours, height=0.7)
        for y, width, truth in zip(place, own["probability"], own["truth"], strict=True):
            note = f"{width:.2f}" + (f"  truth, rank {y}" if truth else "")
            weight = "bold" if truth else "normal"
            ax.annotate(
                note, (width, y), (4, 0), textcoords="offset points", va="center", fontsize=9, fontweight=weight
            )
        ax.set_yticks(place, [str(token) for token in own["token"]])
        ax.set_ylim(len(own) + 0.6, 0.4)
        ax.set_xlim(0, tokens["probability"].max() * 1.75)
        if k is not None and k < len(own):
            ax.axhline(k + 0.5, color=INK, lw=1, ls=(0, (4, 3)))
            ax.annotate(
                f"top {k}", (1, k + 0.5), (0, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                ha="right", va="bottom", fontsize=9,
            )  # fmt: skip
        ax.grid(False, axis="y")
        ax.set_xlabel("probability")
        ax.set_title(panel)
        sns.despine(ax=ax, left=True)
        ax.tick_params(axis="y", length=0)

    panels = list(dict.fromkeys(tokens["panel"]))
    return Panels(panels, draw, size=(3.6, 2.7), columns=len(panels))


def lines(table: pd.DataFrame, x: str, y: Mapping[str, str], *, xlabel: str, log: bool = False) -> Panels:
    """Columns of a table against its column `x`: a panel for each y (column → axis label), a line for each `line`.

    The lines are named at their right ends. The horizontal axis runs as the rows do: down where `x` falls;
    `log` makes it logarithmic.
    """
    names = list(dict.fromkeys(table["line"]))

    def draw(ax: Axes, column: str) -> None:
        ends = {}
        for name, (colour, dash) in zip(names, LINES, strict=False):
            own = table[table["line"] == name].dropna(subset=column)
            if len(own):
                ax.plot(own[x], own[column], dash, color=colour, marker="o", ms=3.5)
                ends[name] = (float(own[x].iloc[-1]), float(own[column].iloc[-1]), colour)
        if log:
            log_axis(ax, "x")
        if table[x].iloc[0] > table[x].iloc[-1]:
            ax.invert_xaxis()
        ax.set_xlabel(xlabel)
        ax.set_ylabel(y[column])
        sns.despine(ax=ax)
        label_line_ends(ax, ends)

    return Panels(list(y), draw, size=(4.6, 3.4))


def rank_distribution(ranks: Sequence[float] | np.ndarray, marked: Mapping[int, float], vocabulary: int) -> Figure:
    """The empirical distribution function of the ranks as steps, with RBP_k marked at some k (k → RBP_k)."""

    def draw(ax: Axes) -> None:
        ordered = np.sort(np.asarray(ranks, dtype=np.float64))
        value, last = np.unique(ordered, return_index=True)
        height = np.append(last[1:], ordered.size) / ordered.size
        ax.step([0.7, *value, vocabulary], [0, *height, 1], where="post", color="#2A7FC0")
        ax.plot(list(marked), list(marked.values()), "o", color=TRUTH, zorder=3)
        for k, share in marked.items():
            name = rf"$\mathrm{{RBP}}_{{{k}}}$ = {share:.3f}"
            ax.annotate(name, (k, share), (8, -12), textcoords="offset points", fontsize=9)
        ax.set_xlim(0.7, vocabulary)
        log_axis(ax, "x")
        ax.set_ylim(0, 1.04)
        ax.set_xlabel("rank R")
        ax.set_ylabel("share of tokens with rank at most R")
        sns.despine(ax=ax)

    return one(draw)
