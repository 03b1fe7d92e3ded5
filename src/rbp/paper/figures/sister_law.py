"""Figures and tables on cross-entropy's three terms: error-entropy, self-alignment and confidence."""

from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from rbp.book.figure_style import INK, LABELS, Panels, label_line_ends, log_axis
from rbp.paper.display import INTERVAL, Columns, shown
from rbp.paper.figures.ladder import ramp
from rbp.paper.sister_law import TERMS
from rbp.paper.wording import cell_label, dataset_label, dataset_order, model_label

CLAIMED = (80, 90)  # per cent of cross-entropy, in small models: the sister law's paper
COLOURS = dict(zip(TERMS, ("#2A7FC0", "#D55E00", "#009E73"), strict=True))
NAMES = dict(zip(TERMS, ("error-entropy", "self-alignment", "confidence"), strict=True))
QUANTITIES = {"cross_entropy": "cross-entropy", **NAMES, "log_c": "ln C"}
PERCENT = "[{:.1f}, {:.1f}]"
_MARKERS = "osD^vPX*"


def share_panels(shares: pd.DataFrame, bins: pd.DataFrame) -> Panels:
    """Error-entropy in per cent of cross-entropy against S, a panel for each family, a line for each text.

    shares: `sister_law.shares`; bins: `sister_law.in_bins`, whose bars are what bins leave open.
    """
    known = bins.assign(share=bins["filled"], low=bins["least"], high=bins["most"])
    known[["share", "low", "high"]] = known[["share", "low", "high"]].div(known["cross_entropy"], axis=0)
    both = pd.concat([shares, known])[["dataset", "family", "size", "share", "low", "high"]]
    both[["share", "low", "high"]] *= 100
    datasets = dataset_order(both["dataset"])
    styles = {
        name: (colour, _MARKERS[i % len(_MARKERS)])
        for i, (name, colour) in enumerate(zip(datasets, ramp(len(datasets)), strict=True))
    }
    bottom, top = min(CLAIMED[0], both["low"].min()) - 3, max(100, both["high"].max()) + 3

    def draw(ax: Axes, family: str) -> None:
        ax.axhspan(*CLAIMED, color="#8a8d91", alpha=0.3, lw=0)
        ax.axhline(100, color=INK, lw=0.8)
        ends = {}
        for dataset, own in both[both["family"] == family].groupby("dataset", sort=False):
            own = own.sort_values("size")
            colour, marker = styles[str(dataset)]
            ax.vlines(own["size"], own["low"], own["high"], color=colour, lw=1.4)
            ax.plot(own["size"], own["share"], marker, ls="-", color=colour, ms=4.5, mew=0, lw=1.2)
            ends[dataset_label(str(dataset))] = (own["size"].iloc[-1], own["share"].iloc[-1], colour)
        ax.annotate("claimed", (0.02, 85), xycoords=("axes fraction", "data"), va="center", fontsize=9.5)
        ax.set_ylim(bottom, top)
        ax.set_xscale("log")
        log_axis(ax, "x", plain=False)
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("error-entropy, % of cross-entropy")
        ax.set_title(family)
        sns.despine(ax=ax)
        label_line_ends(ax, ends)

    return Panels(list(dict.fromkeys(both["family"])), draw, size=(5.2, 4.0))


def term_panels(shares: pd.DataFrame) -> Panels:
    """Self-alignment, confidence and their sum against S, in nats: a panel for each text and family."""
    cells = {cell_label(own.iloc[0]): own for _, own in _by_cell(shares)}
    parts = ["self_alignment", "confidence"]
    sums = shares[parts].sum(axis=1)
    low, high = min(0.0, sums.min(), shares[parts].min().min()), max(0.0, sums.max(), shares[parts].max().max())
    margin = 0.08 * (high - low)

    def draw(ax: Axes, cell: str) -> None:
        own = cells[cell]
        lines = {NAMES[name]: (own[name], COLOURS[name], _MARKERS[i]) for i, name in enumerate(parts)}
        lines["both"] = (own[parts].sum(axis=1), INK, "^")
        ax.axhline(0, color=INK, lw=0.8)
        for value, colour, marker in lines.values():
            ax.plot(own["size"], value, marker, ls="-", color=colour, ms=4.5, mew=0, lw=1.2)
        ax.set_ylim(low - margin, high + margin)
        ax.set_xscale("log")
        log_axis(ax, "x", plain=False)
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("nats")
        ax.set_title(cell)
        sns.despine(ax=ax)
        label_line_ends(ax, {name: (own["size"].iloc[-1], v.iloc[-1], c) for name, (v, c, _) in lines.items()})

    return Panels(list(cells), draw, size=(5.0, 3.8))


def token_panels(curves: pd.DataFrame) -> Panels:
    """Error-entropy in per cent of cross-entropy against the tokens that it is measured on: `sister_law.curves`."""
    cells = {cell_label(own.iloc[0]): own for _, own in _by_cell(curves)}
    share = 100 * curves["share"]
    bottom, top = min(CLAIMED[0], share.min()) - 2, max(100, share.max()) + 2

    def draw(ax: Axes, cell: str) -> None:
        ax.axhspan(*CLAIMED, color="#8a8d91", alpha=0.3, lw=0)
        ax.axhline(100, color=INK, lw=0.8)
        ends = {}
        models = cells[cell].sort_values("size").groupby("model", sort=False)
        for (model, own), colour, marker in zip(models, ramp(len(models)), "os", strict=False):
            own = own.sort_values("tokens")
            ax.plot(own["tokens"], 100 * own["share"], marker, ls="-", color=colour, ms=4.5, mew=0, lw=1.2)
            ends[model_label(str(model))] = (own["tokens"].iloc[-1], 100 * own["share"].iloc[-1], colour)
        ax.set_xlim(curves["tokens"].min() / 1.3, curves["tokens"].max() * 1.3)
        ax.set_ylim(bottom, top)
        ax.set_xscale("log")
        log_axis(ax, "x", plain=False)
        ax.set_xlabel("tokens")
        ax.set_ylabel("error-entropy, % of cross-entropy")
        ax.set_title(cell)
        sns.despine(ax=ax)
        label_line_ends(ax, ends)

    return Panels(list(cells), draw, size=(5.2, 3.8))


def _by_cell(table: pd.DataFrame) -> Any:
    order = dataset_order(table["dataset"])
    return sorted(table.groupby(["dataset", "family"]), key=lambda cell: (order.index(cell[0][0]), cell[0][1]))


# ── Tables: what `Page.table` takes


def shares_shown(shares: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """Error-entropy's share of the smallest and the largest model of each text: measured, and without the bias."""
    ends = pd.concat([own.iloc[[0, -1]].drop_duplicates() for _, own in _by_cell(shares.sort_values("size"))])
    percent = ["share", "low", "high"]
    columns: Columns = {
        "dataset": "Text",
        "model": "model",
        "error_entropy": ("error-entropy", "{:.3f}"),
        "self_alignment": ("self-alignment", "{:+.3f}"),
        "confidence": ("confidence", "{:+.3f}"),
        "share": ("share, %", "{:.1f}"),
        ("low", "high"): (f"{level:.0%} interval", PERCENT),
    }
    caption = "<b>The terms of the smallest and the largest model,</b> in nats, and error-entropy’s share of their sum."
    return shown(ends.assign(**{name: 100 * ends[name] for name in percent}), columns, caption=caption, data=shares)


def fits_shown(fits: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The power law of each term, with both intervals of α."""
    order = list(QUANTITIES)
    place = fits["metric"].map(order.index)
    table = fits.assign(place=place, name=fits["metric"].map(QUANTITIES)).sort_values(["dataset", "family", "place"])
    columns: Columns = {
        "dataset": "Text",
        "family": "family",
        "name": "of",
        "alpha": ("α", "{:.4f}"),
        ("alpha_low", "alpha_high"): ("from the scatter", INTERVAL),
        ("text_low", "text_high"): ("from the documents", INTERVAL),
        "r_squared": ("R²", "{:.4f}"),
        "note": "note",
    }
    caption = (
        f"<b>A power law of cross-entropy and of each term,</b> with both {level:.0%} intervals of α. A negative α: it "
        "grows with S."
    )
    if not table["note"].any():
        columns = {name: column for name, column in columns.items() if name != "note"}
    return shown(table, columns, caption=caption, data=fits)


def changes_shown(changes: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """What each term contributes to the fall of cross-entropy from the smallest to the largest model, in per cent."""
    parts = [f"{name}{end}" for name in TERMS for end in ("", "_low", "_high")]
    columns: Columns = {
        "dataset": "Text",
        "fall": ("fall, nats", "{:.3f}"),
        **{(name, f"{name}_low", f"{name}_high"): (f"{NAMES[name]}, %", f"{{:.1f}} {PERCENT}") for name in TERMS},
    }
    caption = (
        "<b>The fall of cross-entropy from the smallest model to the largest, and each term’s part of it</b>, with its "
        f"{level:.0%} interval from the documents."
    )
    table = changes.assign(**{name: 100 * changes[name] for name in parts})
    return shown(table, columns, caption=caption, data=changes)
