"""Figures of the chapter on forecasts: forecasts beside what was measured, residuals, other curves."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbp.book.figure_style import (
    FAINT,
    INK,
    LABELS,
    Panels,
    family_style,
    log_axis,
    single_panel,
)
from rbp.paper.curves import LINES, SIGNED, off_the_line


def cut_panels(told: pd.DataFrame) -> Panels:
    """The errors of all forecasts by how many of a family's largest models were hidden, families side by side.

    `told`: `forecasts.every_cut`. Below zero a forecast is too hopeful; within a column k grows from left to right.
    """
    rows = told.assign(off=100 * told["error"])
    ks = sorted(rows["k"].unique())
    cuts = rows.groupby("family")["hidden"].max().sort_values(ascending=False, kind="stable")
    panels: list[list[str]] = []
    for family, columns in cuts.items():  # as many families to a panel as have no more cuts than the first
        if not panels or cuts[panels[-1]].sum() + columns > cuts.iloc[0]:
            panels.append([])
        panels[-1].append(str(family))
    reach = 1.08 * rows["off"].abs().max()

    named = {", ".join(own): own for own in panels}

    def draw(ax: Axes, key: str) -> None:
        ax.axhline(0, color=INK, lw=1)
        labels: list[str] = []
        for family in named[key]:
            colour, marker = family_style(family, sorted(cuts.index))
            for hidden, cell in rows[rows["family"] == family].groupby("hidden"):
                middle = len(labels)
                at = middle + 0.5 * ((cell["k"].map(ks.index) + 0.5) / len(ks) - 0.5)
                for inside in (True, False):
                    some, face = cell["covered"] == inside, colour if inside else "none"
                    ax.plot(at[some], cell["off"][some], marker, color=colour, mfc=face, ms=4.5, mew=0.9, alpha=0.8)
                ax.plot([middle - 0.34, middle + 0.34], [cell["off"].median()] * 2, color=INK, lw=2)
                labels.append(f"{hidden}\n{(cell['off'] < 0).sum()} of {len(cell)}")
            last = len(labels) - 1
            ax.text(
                last - (cuts[family] - 1) / 2, 0.97 * reach, family, color=colour, ha="center", va="top", weight="bold"
            )
        ax.set_xticks(range(len(labels)), labels)
        ax.set_xlim(-0.6, max(len(labels), 3) - 0.4)
        ax.set_ylim(-reach, reach)
        ax.yaxis.set_major_formatter(SIGNED)
        ax.grid(visible=False, axis="x")
        ax.set_xlabel("largest models hidden; forecasts too hopeful")
        ax.set_ylabel("forecast less measured (%)")
        sns.despine(ax=ax)

    return Panels(list(named), draw, size=(5.2, 3.7))


def residual_panels(points: pd.DataFrame) -> Panels:
    """How far each point lies from its power law, by dataset, one line for each k.

    `points` is a table of `cells.residuals` of one family.
    """
    return off_the_line(points, line="k", styles=dict(zip(sorted(points["k"].unique()), LINES, strict=False)))


BEYOND = 100


def shape_figure(points: pd.DataFrame, fits: Mapping[str, Any], *, ylabel: str) -> Figure:
    """The points of one family with several fitted curves, drawn on to BEYOND times the largest size.

    `fits` maps the name of a curve to its `ShapeFit`.
    """
    low, high = points["size"].min(), points["size"].max()
    sizes = np.geomspace(low, high * BEYOND, 200)
    styles = ["-", (0, (6, 2)), (0, (2, 1.5)), "-."]

    def draw(ax: Axes) -> None:
        ax.axvspan(high, high * BEYOND, color=FAINT, alpha=0.5, lw=0)
        ends = {}
        for i, (name, fit) in enumerate(fits.items()):
            value = np.maximum(fit.predict(sizes), points["value"].min() / 10)
            colour = [INK, "#D55E00", "#2A7FC0", "#009E73"][i % 4]
            ax.plot(sizes, value, ls=styles[i % 4], color=colour, lw=1.8, label=name)
            ends[name] = value[-1]
        ax.plot(points["size"], points["value"], "o", color=INK, ms=6, zorder=3, label="measured")
        ax.set_xlim(low / 1.5, high * BEYOND)
        ax.set_yscale("log")
        log_axis(ax, "x", plain=False)
        ax.set_ylim(max(min(ends.values()), points["value"].min() / 3) / 1.1, points["value"].max() * 1.1)
        log_axis(ax, "y")
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel(ylabel)
        ax.annotate(
            "no model here", (high * BEYOND**0.5, 0.96), xycoords=("data", "axes fraction"), ha="center", va="top"
        )
        ax.legend(loc="lower left")
        sns.despine(ax=ax)

    return single_panel(draw)
