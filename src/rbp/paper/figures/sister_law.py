"""Figures and tables on cross-entropy's three terms: error-entropy, self-alignment and confidence."""

from typing import Any

import pandas as pd

from rbp.book.figure_style import INK, LABELS, Panels
from rbp.paper.curves import curves, in_cells, melted
from rbp.paper.display import INTERVAL, Columns, shown
from rbp.paper.sister_law import TERMS
from rbp.paper.wording import dataset_order

CLAIMED = (80, 90)  # per cent of cross-entropy, in small models: the sister law's paper
COLOURS = dict(zip(TERMS, ("#2A7FC0", "#D55E00", "#009E73"), strict=True))
NAMES = dict(zip(TERMS, ("error-entropy", "self-alignment", "confidence"), strict=True))
QUANTITIES = {"cross_entropy": "cross-entropy", **NAMES, "log_c": "ln C"}
PERCENT = "[{:.1f}, {:.1f}]"


def share_panels(shares: pd.DataFrame, bins: pd.DataFrame) -> Panels:
    """Error-entropy in per cent of cross-entropy against S, a panel for each family, a line for each text.

    shares: `sister_law.shares`; bins: `sister_law.in_bins`, whose bars are what bins leave open.
    """
    known = bins.assign(share=bins["filled"], low=bins["least"], high=bins["most"])
    known[["share", "low", "high"]] = known[["share", "low", "high"]].div(known["cross_entropy"], axis=0)
    both = pd.concat([shares, known])[["dataset", "family", "size", "share", "low", "high"]]
    both[["share", "low", "high"]] *= 100
    labels = (LABELS["size"], "error-entropy, % of cross-entropy")
    return curves(
        both, "size", "share", labels=labels, panel="family", line="dataset", ends=True, at=[100], zone=CLAIMED,
        ylim="shared",
    )  # fmt: skip


def term_panels(shares: pd.DataFrame) -> Panels:
    """Self-alignment, confidence and their sum against S, in nats: a panel for each text and family."""
    names = {name: NAMES[name] for name in ("self_alignment", "confidence")}
    styles = {names[name]: (COLOURS[name], marker) for name, marker in zip(names, "os", strict=True)}
    both = in_cells(shares.assign(both=shares[[*names]].sum(axis=1)))
    rows = melted(both, {**names, "both": "both"}, "size", by=["cell"])
    return curves(
        rows, "size", "value", labels=(LABELS["size"], "nats"), panel="cell", styles={**styles, "both": (INK, "^")},
        ends=True, at=[0], ylim="shared",
    )  # fmt: skip


def token_panels(shares: pd.DataFrame) -> Panels:
    """Error-entropy in per cent of cross-entropy against the tokens that it is measured on (`share_by_tokens`)."""
    rows = in_cells(shares).assign(share=100 * shares["share"]).sort_values("size", kind="stable")
    return curves(
        rows, "tokens", "share", labels=("tokens", "error-entropy, % of cross-entropy"), panel="cell", line="model",
        ends=True, at=[100], zone=CLAIMED, ylim="shared",
    )  # fmt: skip


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
