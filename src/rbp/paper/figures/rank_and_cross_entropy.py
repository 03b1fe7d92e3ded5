"""Figures and tables of −ln RBP_k against cross-entropy: curves, their scatter by k, runs at equal cross-entropy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbp.book.figure_style import (
    INK,
    LABELS,
    Panels,
    family_style,
    label_line_ends,
    log_axis,
    neg_log_rbp_label,
    single_panel,
)
from rbp.paper.display import INTERVAL, shown
from rbp.paper.rank_and_cross_entropy import summary
from rbp.paper.wording import cell_label, dataset_label, dataset_order
from rbp.stats.power_law import fit_power_law

_MANY = 30  # so many models of a family are drawn small and pale
_LOOSE = 30  # per cent: with so much scatter there is no curve left to show


def entropy_panels(pairs: pd.DataFrame, curves: pd.DataFrame) -> Panels:
    """One panel for each k of `curves`: −ln RBP_k against CE, both logarithmic, with the fitted lines of `curves`."""
    families = sorted(pairs["family"].unique())

    def draw(ax: Axes, k: int) -> None:
        own, lines = pairs[pairs["k"] == k], curves[curves["k"] == k]
        for family in families:
            points = own[own["family"] == family]
            colour, marker = family_style(family, families)
            few = len(points) < _MANY
            size, alpha = (5.5, 1.0) if few else (2.5, 0.35)
            ax.plot(points["cross_entropy"], points["neg_log_rbp"], marker, color=colour, ms=size, mew=0, alpha=alpha)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ends = {}
        for cell in lines.to_dict("records"):
            points = own[(own["dataset"] == cell["dataset"]) & (own["family"] == cell["family"])]
            law = fit_power_law(points["cross_entropy"], points["neg_log_rbp"])
            line = law.predict(np.geomspace(law.size_min, law.size_max, 20))
            colour = family_style(cell["family"], families)[0]
            ax.plot(line["size"], line["value"], color=colour, lw=1.2)
            ends[cell_label(pd.Series(cell))] = (law.size_max, float(line["value"].iloc[-1]), colour)
        label_line_ends(ax, ends)
        ax.set_xlabel(LABELS["cross_entropy"])
        ax.set_ylabel(neg_log_rbp_label(k))
        ax.set_title(f"k = {k}")
        sns.despine(ax=ax)

    return Panels(sorted(curves["k"].unique()), draw, size=(6.2, 4.0), columns=1)


def scatter_panels(curves: pd.DataFrame) -> Panels:
    """One panel for each text and family: the scatter about curves in CE, and in S, by k.

    `curves` comes from `along_k`, with the column text_scatter.
    """
    cells = curves[curves["scatter"] < _LOOSE]
    order = dataset_order(cells["dataset"])
    names = {(str(family), str(dataset)) for family, dataset in zip(cells["family"], cells["dataset"], strict=True)}
    keys = {
        f"{name[0]}: {dataset_label(name[1])}": name for name in sorted(names, key=lambda n: (n[0], order.index(n[1])))
    }

    def draw(ax: Axes, key: str) -> None:
        family, dataset = keys[key]
        own = cells[(cells["family"] == family) & (cells["dataset"] == dataset)].sort_values("k")
        for column, colour, style, label in (
            ("smooth_size", "#B0457B", "D--", "about a smooth curve in S"),
            ("scatter", "#2A7FC0", ":", "about a power law in CE"),
            ("smooth", "#2A7FC0", "o-", "about a smooth curve in CE"),
            ("text_scatter", INK, "-.", "what documents explain of it"),
        ):
            known = own.dropna(subset=column)
            if len(known):
                ax.plot(known["k"], known[column], style, color=colour, ms=4.5, mew=0, lw=1.3, label=label)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set_xlabel("threshold k")
        ax.set_ylabel("scatter of −ln RBP (%)")
        ax.set_title(key)
        ax.legend(loc="best")
        sns.despine(ax=ax)

    return Panels(list(keys), draw)


def slope_panel(curves: pd.DataFrame, *, up_to: int = 1000) -> Figure:
    """The slope of each curve against k up to `up_to`, with its interval from documents, or else from models."""
    families = sorted(curves["family"].unique())
    kept = curves[(curves["k"] <= up_to) & (curves["low"] > 0)]
    several = kept.groupby(["dataset", "family"]).filter(lambda own: len(own) > 1)

    def draw(ax: Axes) -> None:
        ends = {}
        for _, own in several.sort_values("k").groupby(["dataset", "family"]):
            own, cell = own[own["n"] == own["n"].max()], own.iloc[0]
            colour, marker = family_style(cell["family"], families)
            ax.plot(own["k"], own["slope"], marker=marker, color=colour, mew=0, ms=4, lw=1.2)
            ends[cell_label(cell)] = (float(own["k"].iloc[-1]), float(own["slope"].iloc[-1]), colour)
            told = own.dropna(subset="text_low")
            told, which = (told, "text_") if len(told) else (own, "")
            band = (told[f"{which}{end}"].astype(float) for end in ("low", "high"))
            ax.fill_between(told["k"].astype(float), *band, color=colour, alpha=0.18, lw=0)
        log_axis(ax, "x")
        log_axis(ax, "y")
        label_line_ends(ax, ends)
        ax.set_xlabel("threshold k")
        ax.set_ylabel("slope of ln(−ln RBP) on ln CE")
        sns.despine(ax=ax)

    return single_panel(draw)


def run_panel(runs: pd.DataFrame) -> Figure:
    """Each run's −ln RBP_1 above the line in CE of the first architecture's runs, against CE; a colour an architecture.

    `runs` as `outside.xlstm_runs` has them, less the diverged.
    """
    names = runs["architecture"].value_counts().index.tolist()

    def draw(ax: Axes) -> None:
        rank = -np.log(runs["accuracy"])
        base = runs["architecture"] == names[0]
        line = fit_power_law(runs.loc[base, "loss"], rank[base]).predict(runs["loss"])["value"].to_numpy()
        above = (rank - line).to_numpy()
        styles = {name: family_style(name, names) for name in names}
        for sweep, own in runs.assign(above=above).groupby("sweep"):
            name = own["architecture"].iloc[0]
            colour, _ = styles[name]
            marker = "osD^vPX*"[sorted(runs["sweep"].unique()).index(sweep) % 8]
            label = (
                f"{name}, context {own['context'].iloc[0]}, batch {'/'.join(map(str, sorted(own['batch'].unique())))}"
            )
            ax.plot(own["loss"], own["above"], marker, color=colour, ms=4, mew=0, alpha=0.7, label=label)
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_xlabel(LABELS["cross_entropy"])
        ax.set_ylabel(f"−ln RBP₁ less the line of {names[0]}")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        sns.despine(ax=ax)

    return single_panel(draw, size=(7.2, 5.0))


def curves_shown(table: pd.DataFrame, level: float) -> dict[str, Any]:
    """`curves` beside `text_curves`, at some k, as a page shows them; the download has every k of `table`."""
    return shown(
        table,
        {
            "dataset": "Dataset",
            "family": "Family",
            "k": "k",
            "n": "models",
            "slope": ("slope", "{:.3f}"),
            ("low", "high"): (f"{level:.0%}, models", INTERVAL),
            ("text_low", "text_high"): (f"{level:.0%}, documents", INTERVAL),
            "scatter": ("scatter about CE (%)", "{:.2f}"),
            "scatter_size": ("about S (%)", "{:.2f}"),
            "smooth": ("bent, about CE (%)", "{:.2f}"),
            "smooth_size": ("bent, about S (%)", "{:.2f}"),
            "in_entropy": ("bent, in per cent of CE", "{:.2f}"),
        },
        caption="<b>ln(−ln RBPₖ) on ln CE, a line for each family and text.</b> The interval from models "
        "comes from the scatter about the line and takes models as independent; the one from documents draws whole "
        "documents anew, the same ones for both metrics of all models. Scatter: of −ln RBPₖ about the power "
        "law in CE, and in S where models of a family differ in size alone. Bent: about parabolas in logarithms.",
    )


def one_curve_shown(table: pd.DataFrame) -> dict[str, Any]:
    """`one_curve` as a page shows it."""
    return shown(
        table,
        {
            "k": "k",
            "cells": "families and texts",
            "models": "models",
            "one": ("scatter about one curve (%)", "{:.1f}"),
            "own": ("about their own lines (%)", "{:.1f}"),
        },
        caption="<b>One curve for all families and texts?</b> A parabola of ln(−ln RBPₖ) in ln CE through "
        "every model, beside a line for each family and text; at the thresholds that most models have.",
    )


def forms_shown(table: pd.DataFrame) -> dict[str, Any]:
    """The two shapes of `curves`, a power of CE and a straight line in it, as a page shows them."""
    words = {"both": "neither is found bent", "power": "the power fits, the line is bent"}
    words |= {"line": "the line fits, the power is bent", "neither": "both are found bent"}
    return shown(
        table.assign(fits=table["fits"].map(words)),
        {
            "dataset": "Dataset",
            "family": "Family",
            "k": "k",
            ("line_at_0", "line_slope"): ("straight line", "{:.3f} + {:.4f} CE"),
            "scatter": ("scatter, power (%)", "{:.2f}"),
            "line_scatter": ("scatter, line (%)", "{:.2f}"),
            "bend_power_p": ("p, power", "{:.2g}"),
            "bend_line_p": ("p, line", "{:.2g}"),
            "fits": "verdict",
        },
        caption="<b>A power of CE, or a straight line in it?</b> p: of a square term in either, with models taken as "
        "independent, which the runs of a sweep are not.",
    )


def equal_shown(table: pd.DataFrame, level: float) -> dict[str, Any]:
    """`at_equal_entropy` as a page shows it."""
    where = table["where"].where(table["between"] == "texts", table["where"].map(dataset_label))
    names = {
        which: table[which].where(table["between"] == "families", table[which].map(dataset_label))
        for which in ("first", "second")
    }
    return shown(
        table.assign(where=where, **names, apart=table["apart"].map({True: "yes", False: "no"})),
        {
            "between": "between",
            "where": "on, or of",
            ("second", "first"): ("which, over which", "{} over {}"),
            "k": "k",
            ("from_entropy", "to_entropy"): ("CE of both (nats)", "{:.2f} to {:.2f}"),
            "offset": ("offset (%)", "{:.1f}"),
            ("low", "high"): (f"{level:.0%}, models", "[{:.1f}, {:.1f}]"),
            ("text_low", "text_high"): (f"{level:.0%}, documents", "[{:.1f}, {:.1f}]"),
            "shift": ("in per cent of CE", "{:.1f}"),
            "apart": "apart",
        },
        caption="<b>−ln RBPₖ at equal cross-entropy</b>, the second group over the first, in the middle of "
        "the range of CE that both have. In per cent of CE: how far the second group’s CE would have to move to "
        "explain it. Apart: every interval there is leaves out 0.",
        data=table,
    )


def seeds_shown(table: pd.DataFrame, level: float) -> dict[str, Any]:
    """`seeds` as a page shows it, summed up by text and k."""
    rows = table.assign(offset=table["offset"].abs()).groupby(["dataset", "k"], as_index=False)
    return shown(
        rows.agg(pairs=("apart", "size"), apart=("apart", "sum"), median=("offset", "median"), most=("offset", "max")),
        {
            "dataset": "Dataset",
            "k": "k",
            "pairs": "pairs of seeds",
            "apart": "apart",
            "median": ("median offset (%)", "{:.1f}"),
            "most": ("largest (%)", "{:.1f}"),
        },
        caption="<b>The same model trained again with another seed.</b> Offset: its −ln RBPₖ beside the "
        "first one’s at equal CE, either way: what the family’s slope makes of the change of CE is taken out. Apart: "
        f"the {level:.0%} interval, from documents, leaves out 0. The CSV has each pair.",
        data=table,
    )


def sweeps_shown(table: pd.DataFrame) -> dict[str, Any]:
    """`sweeps` as a page shows it: every sweep beside the first, and the pairs of one setting."""
    kept = table[(table["first"] == table["first"].iloc[0]) | table["alike"]]
    return shown(
        kept.assign(alike=kept["alike"].map({True: "yes", False: "no"})),
        {
            "first": "sweep",
            "second": "beside sweep",
            ("n_first", "n_second"): ("runs", "{}, {}"),
            ("from_entropy", "to_entropy"): ("CE of both (nats)", "{:.2f} to {:.2f}"),
            ("difference_from", "difference_to"): ("difference at these ends", "{:.4f} to {:.4f}"),
            "offset": ("in the middle (%)", "{:.2f}"),
            "alike": "same context and batch",
        },
        caption="<b>−ln RBP₁ at equal cross-entropy, sweep by sweep</b> (xLSTM runs, DCLM), the second sweep less the "
        "first. No intervals: the runs of a sweep share data and schedule. How far sweeps of one architecture differ "
        "is the yardstick. The CSV has all pairs.",
        data=table,
    )


def forecasts_shown(told: pd.DataFrame, by: Sequence[str]) -> dict[str, Any]:
    """`summary` of `forecasts` as a page shows it."""
    labels = {"dataset": "Dataset", "family": "Family", "k": "k"}
    return shown(
        summary(told, by),
        {
            **{name: labels[name] for name in by},
            "count": "forecasts",
            "direct": ("RBP from S (%)", "{:.1f}"),
            "via": ("by way of CE (%)", "{:.1f}"),
            "control": ("CE from S (%)", "{:.1f}"),
            "imputed": ("RBP at measured CE (%)", "{:.1f}"),
            "hopeful": "RBP too hopeful",
            "control_hopeful": "CE too hopeful",
        },
        caption="<b>The largest models hidden: median size of the relative error.</b> Too hopeful: lower than was "
        "measured. The last of the four needs the hidden model’s own CE, and is no forecast. CE from S is counted once "
        "for each k that it stands beside.",
        data=told,
    )
