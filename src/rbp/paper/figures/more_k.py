"""Figures that set the threshold k beside the size: −ln RBP_k along k, its exponents, and the exchange of both."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from rbp.book.figure_style import (
    INK,
    LABELS,
    Panels,
    family_style,
    label_line_ends,
    legend_below,
    log_axis,
    neg_log_rbp_label,
)
from rbp.paper.curves import curves
from rbp.paper.wording import dataset_label, dataset_order
from rbp.stats.law_in_k import exact_factor, local_factor


def threshold_panels_shown(points: pd.DataFrame) -> dict[str, Any]:
    """−ln RBP_k against k, a panel for each dataset: the smallest (pale) and the largest model of each family.

    `points` has columns dataset, family, model, size, k and value. The data to download are those of all models.
    """
    families = sorted(points["family"].unique())
    sizes = points.groupby(["dataset", "family"])["size"]
    ends = [points[points["size"] == sizes.transform(end)] for end in ("min", "max")]
    rows = pd.concat([own.assign(line=prefix + own["family"]) for own, prefix in zip(ends, ("_", ""), strict=True)])
    styles = {family: family_style(family, families) for family in families}
    pale = {f"_{family}": (to_rgba(colour, 0.4), marker) for family, (colour, marker) in styles.items()}
    labels = ("threshold k", neg_log_rbp_label())
    return {
        "figure": curves(rows, "k", "value", labels=labels, styles={**pale, **styles}, log="xy", size=(4.6, 4.2)),
        "caption": "<b>−ln RBPₖ against the threshold k</b> (as in figure 9 of the preprint): the smallest "
        "(pale) and the largest model of each family. A power law in k would be straight.",
        "alt": "−ln RBP at k falls along nearly straight lines in log-log axes, those of the largest models lowest and "
        "steepest",
        "data": points,
    }


def residual_panels_shown(residuals: pd.DataFrame) -> dict[str, Any]:
    """What the lines in k leave, a panel for each dataset: each family's median, and the range of its models.

    `residuals`: a `law_in_k.with_residuals`, with columns dataset, family, model, size, k and residual.
    """
    models = residuals.assign(off=100 * residuals["residual"]).groupby(["dataset", "family", "k"])["off"]
    rows = models.agg(off="median", low="min", high="max").reset_index()
    labels = ("threshold k", "off the straight line (%)")
    return {
        "figure": curves(rows, "k", "off", labels=labels, line="family", at=[0], band=True, ylim="shared"),
        "caption": "<b>What the straight lines leave</b>, in per cent: each family’s median "
        "model, and the range of all. Low in the middle: the curve flattens as k grows.",
        "alt": "Arcs of a few per cent about zero: most families low at both ends and high at k of 10 to 50, Qwen2.5 "
        "the "
        "other way round; widest on HumanEval",
        "data": residuals,
    }


def exponent_panels(in_k: pd.DataFrame, in_s: pd.DataFrame) -> Panels:
    """One panel for each dataset: the models' exponents in k, above the families' exponents in S.

    `in_k`: a `fit_in_k`; `in_s`: fits by dataset, family and k with size_min and size_max. An exponent in S is one
    number for a family, drawn along its sizes; its k stands at the line's end.
    """
    families = sorted(in_k["family"].unique())

    def draw(ax: Axes, dataset: str) -> None:
        points, lines = (table[table["dataset"] == dataset] for table in (in_k, in_s))
        styles = {family: family_style(family, families) for family in families if family in set(points["family"])}
        for family, (colour, marker) in styles.items():
            own = points[points["family"] == family].sort_values("size")
            ax.vlines(own["size"], own["alpha_low"], own["alpha_high"], color=colour, lw=1.2)
            ax.plot(own["size"], own["alpha"], marker=marker, color=colour, lw=1, mew=0, zorder=3)
            for row in lines[lines["family"] == family].to_dict("records"):
                ax.plot([row["size_min"], row["size_max"]], [row["alpha"]] * 2, "--", color=colour, lw=1.1)
        ax.set_xscale("log")
        ax.set_ylim(0, 1.08 * points["alpha_high"].max())
        log_axis(ax, "x", plain=False)
        # The families' exponents in S at one k lie close together: one label for each k stands at their mean.
        right = ax.get_xlim()[1]
        means = lines.groupby("k")["alpha"].mean()
        label_line_ends(ax, {f"S, k = {k}": (right, float(alpha), INK) for k, alpha in means.items()})
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("exponent α")
        ax.set_title(dataset_label(dataset))
        legend_below(ax, styles)

    return Panels(dataset_order(in_k["dataset"]), draw, size=(4.6, 4.2))


def exchange_panels(steps: pd.DataFrame, k_from: int) -> Panels:
    """One panel for each dataset: S′/S against k by the local formula, its integral, and the measurements.

    `steps`: rows of `exchange` for one model a dataset, with the column k_to. Hollow points are extrapolated. The
    local formula falls to zero within the panel: beyond, it names no size.
    """

    def draw(ax: Axes, dataset: str) -> None:
        own = steps[steps["dataset"] == dataset].sort_values("k_to")
        colour, marker = family_style(own["family"].iloc[0])
        ratio, last = float(own["ratio"].iloc[0]), float(own["k_to"].max())
        k = np.geomspace(k_from, last, 200)
        ax.plot(k, exact_factor(ratio, k_from, k), color=INK, lw=1.2, label="integrated")
        near = k_from * np.linspace(1, 1 + (1 - 1e-9) / ratio, 400)
        ax.plot(near, local_factor(ratio, k_from, near), ":", color=INK, lw=1.6, label="local")
        for extrapolated, face in ((False, colour), (True, "none")):
            some = own[own["extrapolated"] == extrapolated]
            label = "measured, extrapolated" if extrapolated else "measured"
            ax.plot(some["k_to"], some["measured"], marker, color=colour, mfc=face, label=label, zorder=3)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(float(own[["measured", "exact"]].min().min()) / 3, 3)
        log_axis(ax, "x")
        log_axis(ax, "y", plain=False)
        ax.yaxis.set_minor_locator(ticker.NullLocator())  # the axis spans many decades
        ax.set_xlabel("threshold k")
        ax.set_ylabel(f"S′/S that keeps RBP as at k = {k_from}")
        ax.set_title(f"{dataset_label(dataset)}: {own['model'].iloc[0].rsplit('/', 1)[-1]}")
        legend_below(ax)

    return Panels(dataset_order(steps["dataset"]), draw)
