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
from rbp.paper.wording import dataset_label, dataset_order


def forecast_panels(told: pd.DataFrame) -> Panels:
    """Measured values of held-out models relative to their forecasts, with the forecasts' intervals, by dataset.

    `told` is a table of `cells.forecasts` of one k. Intervals wider than the view end in an arrow.
    """
    off = 100 * (told["value"] / told["predicted"] - 1)
    reach = 1.3 * max(off.abs().max(), 100 * (told["high"] / told["predicted"] - 1).median())
    families = sorted(told["family"].unique())
    most = told.groupby("dataset").size().max()

    def draw(ax: Axes, dataset: str) -> None:
        own = told[told["dataset"] == dataset].sort_values(["family", "size"], ascending=[False, True])
        ax.axvline(0, color=INK, lw=1)
        for row, cell in enumerate(own.to_dict("records")):
            colour, marker = family_style(cell["family"], families)
            low, high = (100 * (cell[end] / cell["predicted"] - 1) for end in ("low", "high"))
            seen = np.clip([low, high], -reach, reach)
            ax.plot(seen, [row, row], color=colour, lw=6, alpha=0.25, solid_capstyle="butt")
            for end, arrow in ((low, "<"), (high, ">")):
                if abs(end) > reach:
                    ax.plot(np.clip(end, -reach, reach), row, arrow, color=colour, ms=7, clip_on=False)
            at = 100 * (cell["value"] / cell["predicted"] - 1)
            ax.plot(at, row, marker, color=colour, mfc=colour if cell["covered"] else "none", mew=1.6, ms=7, zorder=3)
        ax.set_yticks(range(len(own)), [str(model).rpartition("/")[2] for model in own["model"]])
        ax.set_xlim(-1.06 * reach, 1.06 * reach)
        ax.set_ylim(-0.6, most - 0.4)
        ax.xaxis.set_major_formatter(SIGNED)
        ax.grid(visible=False, axis="y")
        ax.set_xlabel("measured against forecast (%)")
        ax.set_title(dataset_label(dataset))
        sns.despine(ax=ax, left=True)
        ax.tick_params(axis="y", length=0)

    return Panels(dataset_order(told["dataset"]), draw, size=(4.6, 0.9 + 0.42 * most))


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
