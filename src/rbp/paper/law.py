"""The tables of the chapters on the law, from k = 1 to every k: fits, gains, exponents, and what counting does."""

from typing import Any

import numpy as np
import pandas as pd

from rbp.paper.display import INTERVAL, shown, written
from rbp.stats.subsets import CELL


def gains(points: pd.DataFrame, low: int, high: int) -> dict[str, int]:
    """Whether more is gained at threshold `high` than at `low`, from the smallest to the largest model of a family.

    points: dataset, family, model, size, k and value (−ln RBP_k). gain_cells: the cells of dataset and family with two
    models or more at both thresholds; of those, gain_factor: −ln RBP_k falls by the larger factor at `high`;
    gain_points: RBP_k itself gains more there.
    """
    wide = points.pivot_table("value", [*CELL, "size"], "k").reindex(columns=[low, high]).dropna()
    ends = wide.groupby(CELL).agg(["first", "last", "size"])
    ends = ends[ends[low, "size"] > 1]
    factor = {k: ends[k, "first"] / ends[k, "last"] for k in (low, high)}
    gained = {k: np.exp(-ends[k, "last"]) - np.exp(-ends[k, "first"]) for k in (low, high)}
    larger = {name: int((each[high] > each[low]).sum()) for name, each in {"factor": factor, "points": gained}.items()}
    return {"gain_cells": len(ends)} | {f"gain_{name}": count for name, count in larger.items()}


def fits_shown(fits: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """Fits of `cells.fit_table` by dataset, family and k, one row each, for `Page.table`."""
    return shown(
        fits.assign(note=fits["note"].mask(fits["weak"].fillna(False), "weak")),
        {
            "dataset": "Dataset",
            "family": "Family",
            "k": "k",
            "n": "sizes",
            "alpha": ("α", "{:.3f}"),
            ("alpha_low", "alpha_high"): (f"{level:.0%} interval", INTERVAL),
            "r_squared": ("R²", "{:.3f}"),
            "residual_se": ("scatter", "{:.3f}"),
            "note": "note",
        },
        caption="<b>The fits.</b> Where the exponent α is negative, −ln RBPₖ grows with size. Scatter: the standard "
        "deviation of ln(−ln RBPₖ) about the line; 0.02 is about 2 per cent. “Weak”: three or four sizes.",
        data=fits,
    )


def fits_by_k_shown(fits: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """Fits of `cells.fit_table` with a row for each dataset and family and a column for each k, for `Page.table`."""
    fitted = fits.dropna(subset="alpha")
    numbers = fitted.assign(half=fitted["alpha_high"] - fitted["alpha"])  # the interval of a slope is symmetric
    rows = numbers[["alpha", "half", "r_squared"]].itertuples(index=False, name=None)
    texts = [written("{:.3f} ± {:.3f}; {:.3f}", row) for row in rows]
    wide = fitted.assign(text=texts).pivot_table("text", ["dataset", "family"], "k", aggfunc="first")
    return shown(
        wide.reset_index(),
        {
            "dataset": "Dataset",
            "family": "Family",
            **{k: f"k = {k}: α ± {level:.0%}; R²" for k in wide.columns},
        },
        caption=f"<b>The fits.</b> After ±, half of the {level:.0%} interval of α. R² is that of ln(−ln RBPₖ).",
        data=fits,
    )


def counting_shown(scatter: pd.DataFrame, *, caption: str) -> dict[str, Any]:
    """Each fit's scatter beside that of counting (`counting.scatter_beside_counting`), for `Page.table`."""
    parts = {"found": "residual_se", "counted": "counting_error", "share": "noise_share"}
    return shown(
        scatter.assign(**{name: 100 * scatter[column] for name, column in parts.items()}),
        {
            "dataset": "Dataset",
            "family": "Family",
            "k": "k",
            "tokens": ("tokens N", "{:,}"),
            "misses_min": ("fewest missed", "{:,.0f}"),
            "found": ("scatter, %", "{:.1f}"),
            "counted": ("from counting, %", "{:.1f}"),
            "share": ("noise, %", "{:.0f}"),
            "r_squared": ("R²", "{:.3f}"),
        },
        caption=f"<b>{caption}</b> Fewest missed: tokens of rank above k, of the best model. Scatter about the line, "
        "in ln(−ln RBPₖ); from counting: what N independent tokens add to it. Noise: that part of the squared scatter.",
        data=scatter,
    )


def misses_shown(ends: pd.DataFrame) -> dict[str, Any]:
    """The missed tokens of the smallest and the largest model (`counting.misses_at_ends`), for `Page.table`.

    Numbers that follow from a bound of N are marked as bounds.
    """
    return shown(
        ends.assign(most=(ends["basis"] == "at most").map({True: "≤ ", False: ""})),
        {
            "dataset": "Dataset",
            "family": "Family",
            "k": "k",
            ("most", "tokens"): ("tokens N", "{}{:,}"),
            ("most", "misses_smallest"): ("missed, smallest model", "{}{:.0f}"),
            ("most", "misses_largest"): ("missed, largest model", "{}{:.0f}"),
            ("most", "misses_min"): ("fewest missed", "{}{:.0f}"),
        },
        caption="<b>Missed tokens</b>: those of rank above k. “≤” stands where only a bound of N is known.",
        data=ends,
    )


def exponents_shown(fits: pd.DataFrame, rise: pd.DataFrame, chains: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The exponent at k = 1 and 100, its rise and its steps, for each dataset and family, for `Page.table`.

    `fits` comes from `subsets.fit_thresholds`, `rise` from `subsets.steps` of these two k, `chains` from
    `subsets.chains`.
    """
    at = fits[fits["models"] == "all"].pivot_table("alpha", CELL, "k").reindex(columns=[1, 100])
    worst = fits[fits["k"] < 1000].groupby(CELL)["r_squared"].min().rename("worst")
    rows = rise.set_index(CELL)[["difference", "low", "high"]].join(at.set_axis(["one", "hundred"], axis=1))
    return shown(
        rows.join(chains.set_index(CELL)[["falling", "steps"]]).join(worst).reset_index(),
        {
            "dataset": "Dataset",
            "family": "Family",
            "one": ("α, k = 1", "{:.3f}"),
            "hundred": ("α, k = 100", "{:.3f}"),
            "difference": ("rise", "{:+.3f}"),
            ("low", "high"): (f"{level:.0%} interval (paired)", INTERVAL),
            ("falling", "steps"): ("steps that do not rise", "{:.0f} of {:.0f}"),
            "worst": ("lowest R², k < 1000", "{:.3f}"),
        },
        caption="<b>The exponent from k = 1 to k = 100.</b> α and its rise: all models. Steps: up to k = 100, on the "
        "common models. Lowest R²: of either set.",
    )
