"""Figures of a family trained from scratch: its law at several k, and why rungs lie off their line."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rbp.book.figure_style import (
    INK,
    LABELS,
    Panels,
    family_style,
    legend_below,
    log_axis,
    neg_log_rbp_label,
)
from rbp.paper.curves import curves, fitted_lines, ramp
from rbp.paper.display import INTERVAL, INTERVAL_1, Columns, shown
from rbp.paper.wording import dataset_label, dataset_order

PARTS = {
    "document": ("documents", "#2A7FC0", "o"),
    "seed": ("seeds", "#D55E00", "s"),
    "lack": ("lack of fit", "#009E73", "D"),
}


def law_panels(points: pd.DataFrame, *, level: float) -> Panels:
    """−ln RBP_k of a family's rungs against S, by dataset, with the power law of each threshold and its band.

    `points` has dataset, size, k, threshold (its name), value, low, high. Where there is no fit, there is no line.
    """
    rows = points[points["value"] > 0].sort_values("k")  # 0 has no logarithm
    rows = rows.assign(line="k = " + rows["threshold"])
    names = list(dict.fromkeys(rows["line"]))
    return curves(
        rows, "size", "value", labels=(LABELS["size"], neg_log_rbp_label()), log="xy", ends=True, ylim="shared",
        styles={name: (colour, "o") for name, colour in zip(names, ramp(len(names)), strict=True)},
        fitted=fitted_lines(rows, ["dataset", "line"], level), size=(4.6, 4.2),
    )  # fmt: skip


def beside_panels(laws: pd.DataFrame, others: pd.DataFrame) -> Panels:
    """α against k, by dataset: a family with both its intervals, and the published one with its only one.

    `laws` has dataset, family, k, alpha, alpha_low, alpha_high, text_low, text_high; `others` the same without the
    text's. Thin bars: scatter about the line; thick bars: which text was drawn.
    """
    families = [str(laws["family"].iloc[0]), *map(str, others["family"].unique())]
    both = pd.concat([laws, others])
    low, high = min(0.0, float(both["alpha"].min())), float(both["alpha"].max())
    margin = 0.15 * (high - low)
    bottom = low - margin if low < 0 else 0

    def draw(ax: Axes, dataset: str) -> None:
        styles = {}
        for family in families:
            own = (
                both[(both["dataset"] == dataset) & (both["family"] == family)].dropna(subset="alpha").sort_values("k")
            )
            if own.empty:
                continue
            colour, marker = styles[family] = family_style(family, families)
            x = own["k"].to_numpy(float)
            gaps = np.flatnonzero(x[1:] > 30 * x[:-1]) + 1  # what happens between is not known
            for stretch in np.split(np.arange(len(x)), gaps):
                ax.plot(x[stretch], own["alpha"].iloc[stretch], color=colour, lw=1)
            ax.plot(x, own["alpha"], marker, color=colour, ms=5, mew=0, zorder=4)
            ax.vlines(x, own["alpha_low"], own["alpha_high"], color=colour, lw=1, alpha=0.7)
            ax.vlines(x, own["text_low"], own["text_high"], color=colour, lw=4.5, alpha=0.35)
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_ylim(bottom, high + margin)
        ax.set_xlim(0.7, both["k"].max() * 1.6)
        log_axis(ax, "x", plain=False)
        ax.set_xlabel("threshold k")
        ax.set_ylabel("exponent α")
        ax.set_title(dataset_label(dataset))
        legend_below(ax, styles)

    return Panels(dataset_order(laws["dataset"]), draw, size=(4.6, 4.1))


def scatter_panels(splits: pd.DataFrame) -> Panels:
    """The scatter about the line and its parts, by dataset, beside each other for each threshold.

    `splits` has dataset, k, threshold, and the variances total, document, seed, seed_low, seed_high, lack of
    ln(−ln RBP_k). Drawn are square roots in per cent, on a logarithmic axis. Hollow marks at the lower edge: parts
    whose variance comes out at zero or below.
    """
    drawn = 100 * np.sqrt(splits[["total", *PARTS]].clip(lower=0))
    least = float(drawn[drawn > 0].min().min()) / 2
    most = 2 * float(max(drawn.max().max(), 100 * np.sqrt(splits["seed_high"].max())))
    thresholds: Sequence[str] = splits.sort_values("k")["threshold"].drop_duplicates().tolist()

    def draw(ax: Axes, dataset: str) -> None:
        own = splits[splits["dataset"] == dataset]
        place = own["threshold"].map(thresholds.index).to_numpy(float)
        whole = 100 * np.sqrt(own["total"].to_numpy(float))
        ax.hlines(whole, place - 0.42, place + 0.42, color=INK, lw=1.3, label="whole scatter")
        for i, (part, (name, colour, marker)) in enumerate(PARTS.items()):
            if own[part].isna().all():
                continue
            x = place + 0.25 * (i - 1)
            height = 100 * np.sqrt(own[part].clip(lower=0).to_numpy(float))
            seen = height > least
            ax.plot(x[seen], height[seen], marker, color=colour, ms=6, mew=0, label=name)
            if not seen.all():
                edge = np.full((~seen).sum(), least)
                ax.plot(x[~seen], edge, marker, color=colour, mfc="none", ms=6, mew=1.3, clip_on=False)
            if part == "seed":
                ends = 100 * np.sqrt(own[["seed_low", "seed_high"]].to_numpy(float).T)
                ax.vlines(x, np.maximum(ends[0], least), ends[1], color=colour, lw=1.2)
        for border in range(1, len(thresholds)):
            ax.axvline(border - 0.5, color=INK, lw=0.4, alpha=0.4)
        ax.set_xticks(range(len(thresholds)), thresholds)
        ax.set_xlim(-0.5, len(thresholds) - 0.5)
        ax.set_yscale("log")
        ax.set_ylim(least, most)
        log_axis(ax, "y")
        ax.tick_params(axis="x", length=0, pad=8)
        ax.grid(visible=False, axis="x")
        ax.set_xlabel("threshold k")
        ax.set_ylabel(f"per cent of {neg_log_rbp_label()}")
        ax.set_title(dataset_label(dataset))
        legend_below(ax)

    return Panels(dataset_order(splits["dataset"]), draw, size=(4.6, 4.0))


# ── Tables: what `Page.table` takes


def texts_shown(text: pd.DataFrame) -> dict[str, Any]:
    """The text that was trained and evaluated on (`shipping.shipped_text`)."""
    use = text["use"].map({"training": "trained on", "evaluation": "evaluated on"})
    table = text.assign(use=use, name=text["name"].map(dataset_label))
    caption = (
        "<b>The text.</b> An equal share of the tokens was drawn from each training source. Evaluation documents were "
        "ranked whole."
    )
    columns: Columns = {
        "use": "use",
        "name": "name",
        "documents": ("documents", "{:,}"),
        "tokens": ("tokens", "{:,}"),
        "licence": "licence",
        "origin": "origin",
    }
    return shown(table, columns, caption=caption, data=text)


def laws_shown(laws: pd.DataFrame, *, level: float, data: pd.DataFrame) -> dict[str, Any]:
    """The law of each text and k with both intervals of α; data: the laws at all k, for the CSV."""
    columns: Columns = {
        "dataset": "Text",
        "threshold": "k",
        "misses": ("missed, fewest", "{:,}"),
        "alpha": ("α", "{:.3f}"),
        ("alpha_low", "alpha_high"): ("from the scatter", INTERVAL),
        ("text_low", "text_high"): ("from the text", INTERVAL),
        "r_squared": ("R²", "{:.4f}"),
        "scatter": ("scatter, %", "{:.1f}"),
    }
    caption = (
        f"<b>The fits, with both {level:.0%} intervals of α.</b> Missed, fewest: tokens of rank above k, for the rung "
        "that misses fewest. Scatter: the standard deviation of the residuals, as a percentage of −ln RBPₖ."
    )
    return shown(laws.assign(scatter=100 * laws["residual_se"]), columns, caption=caption, data=data)


def parts_shown(parts: pd.DataFrame) -> dict[str, Any]:
    """The parts of the squared scatter (`scatter_parts`, at named thresholds), in per cent of it."""
    table = parts.assign(scatter=100 * np.sqrt(parts["total"]))
    table[list(PARTS)] = 100 * parts[list(PARTS)].div(parts["total"], axis=0)
    columns: Columns = {
        "dataset": "Text",
        "threshold": "k",
        "scatter": ("scatter, %", "{:.1f}"),
        **{name: (label, "{:.0f}") for name, (label, _, _) in PARTS.items()},
        "f": ("F", "{:.1f}"),
        "p": ("p", "{:.2g}"),
    }
    caption = (
        "<b>The parts of the squared scatter, in per cent.</b> F compares the squared scatter with what documents and "
        "seeds make together; a small p says that they do not make it all. The test is cautious: first seeds are in "
        "both."
    )
    return shown(table, columns, caption=caption, data=parts)


def reruns_shown(again: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """How far rungs trained again lie from their first training (`rbp.paper.ladder.reruns`, with `what` differs)."""
    columns: Columns = {
        "dataset": "Text",
        "size": ("S", "{:,}"),
        "what": "another",
        "difference": ("difference, %", "{:+.1f}"),
        ("low", "high"): (f"{level:.0%} interval", INTERVAL_1),
    }
    caption = "<b>Trained again:</b> −ln RBP<sub>k</sub> beside the first training’s; intervals by documents."
    rows = again.replace({"what": {"weights": "start", "order": "order of the text", "heads": "size of heads"}})
    return shown(rows, columns, caption=caption, data=again)


def pairs_shown(pairs: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The exponents of `beside`, those found here and Pythia's."""
    columns: Columns = {
        "dataset": "Text",
        "threshold": "k",
        "alpha": ("α, here", "{:.3f}"),
        "other_k": "k, Pythia",
        "other_alpha": ("α, Pythia", "{:.3f}"),
        "difference": ("difference", "{:+.3f}"),
        ("low", "high"): (f"{level:.0%} interval", INTERVAL),
        "r_squared": ("R², here", "{:.3f}"),
        "other_r_squared": ("R², Pythia", "{:.3f}"),
    }
    caption = (
        "<b>Exponents side by side.</b> The interval of the difference is Welch’s, from the scatter about both lines. "
        "It does not cover that the texts, though of one kind, are not the same."
    )
    return shown(pairs, columns, caption=caption)
