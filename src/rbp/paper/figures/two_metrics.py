"""Figures that set two quantities side by side: cross-entropy and −ln RBP_k, the threshold k and the size."""

from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from rbp.book.figure_style import (
    INK,
    LABELS,
    Panels,
    family_style,
    label_line_ends,
    legend_below,
    log_axis,
    neg_log_rbp_label,
    single_panel,
)
from rbp.paper.curves import curves, fitted_lines, in_cells, melted
from rbp.paper.two_metrics import ROUNDING
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
        sns.despine(ax=ax)
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
        sns.despine(ax=ax)

    return Panels(dataset_order(steps["dataset"]), draw)


METRICS = {"cross_entropy": ("#B0457B", "D"), "neg_log_rbp": ("#2A7FC0", "o")}


def fall_panels(pairs: pd.DataFrame, k: int) -> Panels:
    """Both metrics of `two_metrics.pair_metrics` against S, each over its fitted line at the smallest model.

    One panel for each dataset and family with three sizes or more.
    """
    names = {"cross_entropy": "cross-entropy", "neg_log_rbp": neg_log_rbp_label(k)}
    several = pairs.groupby(["dataset", "family"])["size"].transform("nunique") >= 3
    rows = melted(in_cells(pairs[several]), names, "size", by=["cell"])
    lines = fitted_lines(rows, ["cell", "line"])
    starts = {(line["cell"].iloc[0], line["line"].iloc[0]): line["value"].iloc[0] for line in lines}
    rows["value"] /= [starts.get(key, np.nan) for key in zip(rows["cell"], rows["line"], strict=True)]
    lines = [line.drop(columns=["low", "high"]).assign(value=line["value"] / line["value"].iloc[0]) for line in lines]
    styles = dict(zip(names.values(), METRICS.values(), strict=True))
    labels = (LABELS["size"], "relative to the smallest model")
    return curves(
        rows.dropna(subset="value"), "size", "value", labels=labels, panel="cell", styles=styles, fitted=lines,
        ends=True, log="xy", size=(4.6, 3.7),
    )  # fmt: skip


def difference_dots(printed: pd.DataFrame, tests: pd.DataFrame) -> Figure:
    """Printed α of cross-entropy minus α of −ln RBP_1, a row for each dataset, a marker for each family.

    `printed`: rows of `two_metrics.printed_differences` at one k; `tests`: a `paired_table`, whose intervals are
    drawn where there is one. The grey band is what rounding can do.
    """
    datasets = dataset_order(printed["dataset"])[::-1]
    families = sorted(printed["family"].unique())

    def place(dataset: str, family: str) -> float:
        return datasets.index(dataset) + 0.16 * ((len(families) - 1) / 2 - families.index(family))

    def draw(ax: Axes) -> None:
        ax.axvspan(-ROUNDING, ROUNDING, color="#8a8d91", alpha=0.35, lw=0)
        ax.axvline(0, color=INK, lw=0.8)
        for row in tests.to_dict("records"):
            if row["dataset"] in datasets and row["family"] in families:
                colour = family_style(row["family"])[0]
                ax.hlines(place(row["dataset"], row["family"]), row["low"], row["high"], color=colour, lw=1.6)
        for family in families:
            own = printed[printed["family"] == family]
            colour, marker = family_style(family, families)
            heights = [place(dataset, family) for dataset in own["dataset"]]
            ax.plot(own["difference"], heights, marker, color=colour, mew=0, label=family, zorder=3)
        ax.set_yticks(range(len(datasets)), [dataset_label(dataset) for dataset in datasets])
        ax.set_xlabel("α of cross-entropy − α of −ln RBP₁, as printed")
        ax.grid(axis="y", visible=False)
        legend_below(ax)
        sns.despine(ax=ax)

    return single_panel(draw, size=(6.4, 4.6))
