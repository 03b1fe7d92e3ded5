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
    legend_below,
    log_axis,
    neg_log_rbp_label,
    single_panel,
)
from rbp.paper.curves import curves, in_cells, melted
from rbp.paper.display import INTERVAL, shown
from rbp.paper.rank_and_cross_entropy import summary
from rbp.paper.wording import cell_label, dataset_label
from rbp.stats.power_law import fit_power_law

_MANY = 30  # so many models of a family are drawn small and pale
_LOOSE = 30  # per cent: with so much scatter there is no curve left to show


def entropy_panels(pairs: pd.DataFrame, fitted: pd.DataFrame) -> Panels:
    """One panel for each k of `fitted`: −ln RBP_k against CE, both logarithmic, with the lines of `entropy_curves`."""
    families = sorted(pairs["family"].unique())

    def draw(ax: Axes, k: int) -> None:
        own, lines = pairs[pairs["k"] == k], fitted[fitted["k"] == k]
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

    return Panels(sorted(fitted["k"].unique()), draw, size=(6.2, 4.0), columns=1)


def scatter_panels(along_k: pd.DataFrame) -> Panels:
    """One panel for each text and family: the scatter about curves in CE, and in S, by k.

    along_k: of `rank_and_cross_entropy.along_k`, with the column text_scatter.
    """
    names = {
        "smooth_size": "about a smooth curve in S",
        "scatter": "about a power law in CE",
        "smooth": "about a smooth curve in CE",
        "text_scatter": "what documents explain of it",
    }
    styles = (("#B0457B", "D", "--"), ("#2A7FC0", "", ":"), ("#2A7FC0", "o", "-"), (INK, "", "-."))
    rows = melted(in_cells(along_k[along_k["scatter"] < _LOOSE]), names, "k", by=["cell"])
    labels = ("threshold k", "scatter of −ln RBP (%)")
    return curves(
        rows, "k", "value", labels=labels, panel="cell", styles=dict(zip(names.values(), styles, strict=True)), log="xy"
    )


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
        legend_below(ax)
        sns.despine(ax=ax)

    return single_panel(draw, size=(7.2, 5.0))


def curves_shown(table: pd.DataFrame, level: float) -> dict[str, Any]:
    """`entropy_curves` beside `text_curves`, at some k, as a page shows them; the download has every k of `table`."""
    return shown(
        table,
        {
            "dataset": "Dataset",
            "family": "Family",
            "k": "k",
            "slope": ("slope", "{:.3f}"),
            ("low", "high"): (f"{level:.0%}, models", INTERVAL),
            ("text_low", "text_high"): (f"{level:.0%}, documents", INTERVAL),
            "scatter": ("scatter about CE (%)", "{:.2f}"),
            "scatter_size": ("about S (%)", "{:.2f}"),
        },
        caption="<b>ln(−ln RBPₖ) on ln CE, a line for each family and text.</b> Scatter: of −ln RBPₖ about power laws "
        "in CE and in S.",
    )


def equal_shown(table: pd.DataFrame, level: float) -> dict[str, Any]:
    """`at_equal_entropy` as a page shows it."""
    names = {which: table[which].map(dataset_label) for which in ("first", "second")}
    return shown(
        table.assign(**names, apart=table["apart"].map({True: "yes", False: "no"})),
        {
            "family": "family",
            ("second", "first"): ("which, over which", "{} over {}"),
            "k": "k",
            "offset": ("offset (%)", "{:.1f}"),
            ("low", "high"): (f"{level:.0%}, models", "[{:.1f}, {:.1f}]"),
            ("text_low", "text_high"): (f"{level:.0%}, documents", "[{:.1f}, {:.1f}]"),
            "apart": "apart",
        },
        caption="<b>−ln RBPₖ at equal cross-entropy</b>. Apart: every interval leaves out 0.",
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
        "measured. RBP at measured CE is no forecast. CE is counted once for each k.",
        data=told,
    )
