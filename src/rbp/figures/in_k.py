"""Figures that set the threshold k against model size (figure 9 of the preprint of 3 October 2025)."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import ticker
from matplotlib.axes import Axes

from rbp.figures.style import INK, LABELS, Panels, families_legend, family_style, label_line_ends, log_axis
from rbp.names import dataset_label, dataset_order
from rbp.scaling.exchange import exact_factor, local_factor


def threshold_panels(points: pd.DataFrame, column: str, *, ylabel: str, log: bool) -> Panels:
    """One panel for each dataset: `column` of each model against k, larger models darker, a colour a family.

    `points` has columns dataset, family, model, size, k and `column`. The axis of k is logarithmic; the other one
    where `log` says so, else it has a line at 0 and one range in all panels.
    """
    families = sorted(points["family"].unique())
    reach = 1.1 * points[column].abs().max()

    def draw(ax: Axes, dataset: str) -> None:
        own = points[points["dataset"] == dataset]
        styles = {family: family_style(family, families) for family in families if family in set(own["family"])}
        for family, (colour, marker) in styles.items():
            models = own[own["family"] == family].sort_values("size")["model"].unique()
            for place, model in enumerate(models, 1):
                line = own[own["model"] == model].sort_values("k")
                shade = 0.3 + 0.7 * place / len(models)
                ax.plot(line["k"], line[column], marker=marker, color=colour, alpha=shade, lw=1, ms=3.5, mew=0)
        ax.set_xscale("log")
        log_axis(ax, "x")
        ax.set_xlabel("threshold k")
        if log:
            ax.set_yscale("log")
            log_axis(ax, "y")
        else:
            ax.axhline(0, color=INK, lw=0.8)
            ax.set_ylim(-reach, reach)
        ax.set_ylabel(ylabel)
        ax.set_title(dataset_label(dataset))
        sns.despine(ax=ax)
        families_legend(ax, styles)

    return Panels(dataset_order(points["dataset"]), draw, size=(4.6, 4.2))


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
        sns.despine(ax=ax)
        families_legend(ax, styles)

    return Panels(dataset_order(in_k["dataset"]), draw, size=(4.9, 4.2))


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
        ax.set_ylabel(f"S′/S that keeps RBP at its value at k = {k_from}")
        ax.set_title(f"{dataset_label(dataset)}: {own['model'].iloc[0].rsplit('/', 1)[-1]}")
        ax.legend(loc="upper right")
        sns.despine(ax=ax)

    return Panels(dataset_order(steps["dataset"]), draw)
