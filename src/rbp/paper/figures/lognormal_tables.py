"""The tables of the chapters on lognormal ranks: each function gives what `page.table` takes besides a name."""

from typing import Any

import pandas as pd

from rbp.paper.display import INTERVAL_4, Column, shown
from rbp.paper.wording import cell_label
from rbp.stats.rank_families import FAMILIES

Shown = dict[str, Any]
Headings = dict[str | tuple[str, ...], Column]


def _all_as(how: str, **headings: str) -> Headings:
    """Columns by their headings, all in one format."""
    return {column: (heading, how) for column, heading in headings.items()}


def _distribution(heading: str) -> Headings:
    return {"distribution": (heading, lambda name: FAMILIES[name].label)}


# ── Does the lognormal predict both curves?


def predicted(exponents: pd.DataFrame, level: float) -> Shown:
    """The table of `predicted_curves.exponents`."""
    return shown(
        exponents,
        {
            "kind": "curves",
            "alpha_ce": ("α, cross-entropy", "{:.4f}"),
            "alpha_p1": ("α, −ln RBP₁", "{:.4f}"),
            "difference": ("difference", "{:+.4f}"),
            ("low", "high"): (f"{level:.0%} interval", INTERVAL_4),
        },
        caption="<b>Exponents over the same ten models</b>, and the paired test of their difference.",
    )


def rank_1(fits: pd.DataFrame) -> Shown:
    """The table of `predicted_curves.fits_with_and_without_1`."""
    ours = {"mu": "μ", "sigma": "σ"}
    p1 = {"measured_p1": "RBP₁ measured", "density_p1": "p₁ by equation 10"}
    return shown(
        fits,
        {"model": "model"}
        | _all_as("{:.3f}", **ours, **p1)
        | _all_as("{:.4f}", tau="1/σ² with rank 1")
        | _all_as("{:.3f}", power_law_p1="p₁, power law"),
        caption="<b>Fits of the ranks from 2 up, and what they make of rank 1.</b> With rank 1 in the fit, the best "
        "1/σ² is below 0, which no lognormal has. What is left is a power law, in the last column.",
    )


# ── Are ranks lognormal?


def exponents(lines: pd.DataFrame, level: float, data: pd.DataFrame) -> Shown:
    """`exponents_on_lines` of one family of models on one dataset."""
    words = [
        "no line" if limits else "yes" if both else "no"
        for limits, both in zip(lines["at_limit"], lines["both"], strict=True)
    ]
    p1 = {"line_alpha_p1": "α of −ln p₁", "alpha_p1": "measured"}
    entropy = {"line_alpha_entropy": "α of the entropy", "alpha_entropy": "measured "}
    return shown(
        lines.assign(words=words),
        _distribution("distribution") | _all_as("{:.4f}", **p1, **entropy) | {"words": "both within"},
        caption=f"<b>Exponents that follow from straight lines in ln S</b>, {cell_label(lines.iloc[0])}. Last: are "
        f"both within the {level:.0%} intervals of the measured ones?",
        data=data,
    )
