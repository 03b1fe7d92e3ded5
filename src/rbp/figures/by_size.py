"""Figures of a measurement against model size, with the fitted power laws (figures 3 to 5 of the paper)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from rbp.errors import FitError
from rbp.figures.style import LABELS, Panels, family_style, label_line_ends, log_axis
from rbp.names import dataset_label, dataset_order


def scaling_panel(
    ax: Axes,
    points: pd.DataFrame,
    fits: Mapping[str, Any],
    *,
    ylabel: str,
    title: str,
) -> None:
    """Measured values against S, by family, with the fitted power laws and the confidence bands of the lines.

    `points` has columns family, size, value; `fits` maps a family to its `PowerLawFit` (families without one show
    their points alone). Both axes are logarithmic, so a power law is a straight line.
    """
    families = list(dict.fromkeys(points.family))
    ends: dict[str, tuple[float, float, str]] = {}
    for family in families:
        colour, marker = family_style(family, families)
        own = points[points.family == family].sort_values("size")
        ax.plot(own["size"], own["value"], marker, color=colour, markeredgecolor="none", label=family, zorder=3)
        last = own.iloc[-1]
        ends[family] = (float(last["size"]), float(last["value"]), colour)
        fit = fits.get(family)
        if fit is not None:
            line = fit.predict(np.geomspace(own["size"].min(), own["size"].max(), 60))
            ax.plot(line["size"], line["value"], "--" if fit.weak else "-", color=colour, lw=1.4)
            ax.fill_between(line["size"], line["mean_low"], line["mean_high"], color=colour, alpha=0.18, lw=0)
            ends[family] = (float(line["size"].iloc[-1]), float(line["value"].iloc[-1]), colour)
    ax.set_xscale("log")
    ax.set_yscale("log")
    # A band of three or four points can be wide beyond use: the points and lines set the view.
    low, high = points["value"].min(), points["value"].max()
    ax.set_ylim(low / (high / low) ** 0.15, high * (high / low) ** 0.15)
    log_axis(ax, "x", plain=False)
    log_axis(ax, "y")
    ax.set_xlabel(LABELS["size"])
    ax.set_ylabel(ylabel)
    ax.set_title(title)
    sns.despine(ax=ax)
    label_line_ends(ax, ends)


def scaling_panels(points: pd.DataFrame, *, ylabel: str, level: float = 0.95) -> Panels:
    """One `scaling_panel` for each dataset of `points` (a measurement table of one metric and one k), fits included.

    A family with too few sizes, or with a value that has no logarithm, is shown without a line.
    """
    from rbp.scaling import fit_power_law  # statsmodels loads for a second: not every page has fits

    def draw(ax: Axes, dataset: str) -> None:
        own = points[points.dataset == dataset]
        fits = {}
        for family, rows in own.groupby("family"):
            try:
                fits[str(family)] = fit_power_law(rows["size"], rows["value"], level=level)
            except FitError:
                continue
        scaling_panel(ax, own, fits, ylabel=ylabel, title=dataset_label(dataset))

    return Panels(dataset_order(points.dataset), draw)
