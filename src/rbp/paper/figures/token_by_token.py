"""Figures of rank and probability, token by token."""

from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbp.book.figure_style import INK, LABELS, Panels, legend_below, single_panel
from rbp.paper.curves import by_number, numbered, shades
from rbp.paper.wording import cell_label, dataset_label, dataset_order

MARKERS = "osD^vPX*"


def everyone(points: pd.DataFrame, lines: pd.DataFrame) -> Figure:
    """RBP_1 against CE of every model, a colour and a marker for each family and text, with its straight line.

    points: of `mixtures.points`; lines: of `mixtures.slopes`.
    """
    cells: list[Any] = list(lines.sort_values("at_zero", ascending=False).itertuples())
    colours = sns.color_palette("deep", max(len(cells), 2))

    def draw(ax: Axes) -> None:
        styles: dict[str, tuple[Any, ...]] = {}
        for i, cell in enumerate(cells):
            own = points[(points["dataset"] == cell.dataset) & (points["family"] == cell.family)]
            marker, colour = MARKERS[i % len(MARKERS)], colours[i]
            few = len(own) < 50
            ax.plot(own["cost"], own["hit"], marker, color=colour, ms=5 if few else 2, mew=0, alpha=0.9 if few else 0.4)
            styles[f"{cell_label(cell)}: {cell.per_nat:.3f}"] = (colour, marker, "-", 1)
            ends = np.array([own["cost"].min(), own["cost"].max()])
            ax.plot(ends, cell.at_zero - cell.per_nat * ends, color=colour, lw=1)
        ax.set_xlabel(LABELS["cross_entropy"])
        ax.set_ylabel("RBP₁")
        legend_below(ax, styles)
        sns.despine(ax=ax)

    return single_panel(draw)


def curve_panels(rates: pd.DataFrame) -> Panels:
    """The share of tokens of rank ≤ k against −ln p, a panel for each text and a colour for each k.

    rates: `token_by_token.hit_rates`. Thin: the smallest model, thick: the largest. Dotted: from here on, to the left,
    rank ≤ k is certain, as p times rank is at most 1.
    """
    colours = shades(rates["k"].unique())

    def draw(ax: Axes, dataset: str) -> None:
        own = rates[rates["dataset"] == dataset]
        for k, of_k in by_number(own, "k"):
            for size, rows in by_number(of_k, "size"):
                ax.plot(rows["nll"], rows["share"], color=colours[k], lw=2.2 if size == own["size"].max() else 0.9)
            ax.axvline(np.log(k + 1), color=INK, lw=0.7, ls=":")
        ax.set_xlim(0, 12)
        ax.set_xlabel("−ln p of the token (nats)")
        ax.set_ylabel("share of rank ≤ k")
        ax.set_title(dataset_label(dataset))
        legend_below(ax, numbered(colours, "k"))
        sns.despine(ax=ax)

    return Panels(dataset_order(rates["dataset"]), draw)
