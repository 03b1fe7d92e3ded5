"""More k or more parameters, as the preprint asks; and other architectures beside the transformer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgba

from companion.chapters.families import TRANSFORMER, exponents, measure_label
from companion.stats import law_in_k
from rbp.arrays import check_level
from rbp.errors import DataError
from rbp.figures.curves import curves
from rbp.figures.style import family_style, neg_log_rbp_label
from rbp.figures.wording import family_label
from rbp.laws.power import fit_power_law
from rbp.laws.resampling import interval
from rbp.measurements.counts import Counts, LeftOut
from rbp.report.display import Columns, shown


def in_k_told(
    in_k: pd.DataFrame,
    in_s: pd.DataFrame,
    bends: pd.DataFrame,
    noise: pd.DataFrame,
    traded: pd.DataFrame,
    *,
    level: float,
) -> dict[str, Any]:
    """What the page and the ledger say of the law in k, by the tables of `companion.stats.law_in_k`."""
    both = law_in_k.beside_size(in_k, in_s)
    rising = (
        in_k.sort_values("size").groupby(["dataset", "family"])["alpha"].apply(lambda one: one.is_monotonic_increasing)
    )
    by_k = in_s.pivot_table(index=["dataset", "family"], columns="k", values="alpha")
    usable = traded["ratio"][traded["ratio"] > 0].map(law_in_k.usable_from)
    relative = (100 * bends["bend"] / bends["alpha_below"]).abs()
    return {
        "pairs": len(in_k),
        "r_squared_min": in_k["r_squared"].min(),
        "r_squared_high": int((in_k["r_squared"] >= 0.99).sum()),
        "bend_median": relative.median(),
        "noise_tested": len(noise),
        "noise_rejected": int((noise["p"] < 1 - level).sum()) if len(noise) else 0,
        "compared": len(both),
        "larger": int((both["times"] > 1).sum()),
        "times_min": both["times"].min(),
        "times_max": both["times"].max(),
        "cells": len(rising),
        "rising_cells": int(rising.sum()),
        "s_rises": int((by_k.iloc[:, -1] > by_k.iloc[:, 0]).sum()),
        "exchanged": len(traded),
        "local_impossible": int((traded["local"] <= 0).sum()),
        "usable_from_min": usable.min(),
        "usable_from_max": usable.max(),
        "worth_measured_median": (1 / traded["measured"]).median(),
    }


def in_k_shown(points: pd.DataFrame) -> dict[str, Any]:
    """−ln RBP_k against k, a panel for each dataset: the smallest (pale) and the largest model of each family."""
    families = sorted(points["family"].unique())
    sizes = points.groupby(["dataset", "family"])["size"]
    ends = [points[points["size"] == sizes.transform(end)] for end in ("min", "max")]
    rows = pd.concat([own.assign(line=prefix + own["family"]) for own, prefix in zip(ends, ("_", ""), strict=True)])
    styles = {family: family_style(family, families) for family in families}
    pale = {f"_{family}": (to_rgba(colour, 0.4), marker) for family, (colour, marker) in styles.items()}
    labels = ("threshold k", neg_log_rbp_label())
    return {
        "figure": curves(rows, "k", "value", labels=labels, styles={**pale, **styles}, log="xy", size=(4.6, 4.2)),
        "caption": "<b>−ln RBPₖ against k</b> (figure 9 of the preprint): the smallest (pale) and the largest model "
        "of each family. A power law in k is straight.",
        "alt": "−ln RBP at k falls along nearly straight lines in log-log axes, those of the largest models lowest and "
        "steepest",
        "data": points,
    }


def exchange_shown(in_k: pd.DataFrame, in_s: pd.DataFrame, traded: pd.DataFrame) -> dict[str, Any]:
    """Exponents in k beside those in S, and what a longer list is worth, by dataset and family."""
    cell = ["dataset", "family"]
    alpha = in_k.groupby(cell)["alpha"].agg(k_low="min", k_high="max")
    size = in_s.groupby(cell)["alpha"].agg(s_low="min", s_high="max")
    trade = traded.groupby(cell)[["local", "exact", "measured"]].median()
    columns: Columns = {
        "dataset": "Dataset",
        "family": "family",
        ("k_low", "k_high"): ("exponent in k", "{:.2f} – {:.2f}"),
        ("s_low", "s_high"): ("in S", "{:.3f} – {:.3f}"),
        "local": ("S′/S by the formula", "{:.2f}"),
        "exact": ("integrated", "{:.3f}"),
        "measured": ("measured", "{:.3f}"),
    }
    k_to = int(traded["k_to"].iloc[0])
    caption = (
        "<b>k or S?</b> Both exponents, and the size S′ that reaches with "
        f"k = {k_to} what S has with the shorter list: medians over models."
    )
    return shown(pd.concat([alpha, size, trade], axis=1).dropna().reset_index(), columns, caption=caption)


# ── Other architectures


def on_shared_rungs(text: Counts, family: str, ks: Sequence[int]) -> list[LeftOut]:
    """The transformer and a family on a text, at their largest budgets: the rungs that both have, by size."""
    both = [text.of(name, seed=0) for name in (TRANSFORMER, family)]
    shared = [rung for rung in both[0].models["rung"] if rung in set(both[1].models["rung"])]
    if len(shared) < 3:
        what = f"{len(shared)} rungs of {family} are the transformer's as well"
        raise DataError(what, text.dataset, "Three are needed for a law: train them: rbp ladder train --family.")
    places = [[one.models["rung"].tolist().index(rung) for rung in shared] for one in both]
    return [one.keep(at, ks).left_out() for one, at in zip(both, places, strict=True)]


def exponents_beside(texts: Sequence[Counts], family: str, ks: Sequence[int], *, level: float = 0.95) -> pd.DataFrame:
    """The exponents in S of the transformer and of a family, on the rungs that both have, at their largest budgets.

    Columns dataset, k (missing for the cross-entropy), family, n, alpha_transformer, r_squared_transformer, alpha,
    r_squared, difference (the family's less the transformer's); low, high: by documents, the same for both;
    scatter_low, scatter_high: from the scatter about the two lines, whose rungs are taken as pairs: the line of the
    ratio.
    """
    check_level(level)
    rows = []
    for text in texts:
        first, second = on_shared_rungs(text, family, ks)
        sizes = [one.counts.sizes for one in (first, second)]
        for k, their in first.each():
            both = (their, second.at(k))
            fits = [fit_power_law(size, np.exp(y[0]), level=level) for size, y in zip(sizes, both, strict=True)]
            slopes = [exponents(size, y) for size, y in zip(sizes, both, strict=True)]
            difference, low, high = interval(slopes[1] - slopes[0], level=level)
            # sizes of a rung differ by few per cent: the ratio is taken along the transformer's
            ratio = fit_power_law(sizes[0], np.exp(both[1][0] - both[0][0]), level=level)
            half = (ratio.alpha_high - ratio.alpha_low) / 2
            rows.append(
                {"dataset": text.dataset, "k": k, "family": family, "n": fits[1].n}
                | {"alpha_transformer": fits[0].alpha, "r_squared_transformer": fits[0].r_squared}
                | {"alpha": fits[1].alpha, "r_squared": fits[1].r_squared, "difference": difference}
                | {"low": low, "high": high, "scatter_low": difference - half, "scatter_high": difference + half}
            )
    return pd.DataFrame(rows).astype({"k": "Int64"})


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """With the column measure, what is shown for k."""
    return table.assign(measure=[measure_label(k) for k in table["k"]])


def beside_shown(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The exponents of families side by side (`exponents_beside`)."""
    columns: Columns = {
        "dataset": "Text",
        "measure": "of",
        "family": "family",
        "alpha_transformer": ("α, transformer", "{:.3f}"),
        "alpha": ("α, family", "{:.3f}"),
        "difference": ("difference", "{:+.3f}"),
        ("low", "high"): ("from the text, paired", "[{:+.3f}, {:+.3f}]"),
        ("scatter_low", "scatter_high"): ("from the scatter", "[{:+.3f}, {:+.3f}]"),
        "r_squared_transformer": ("R², transformer", "{:.4f}"),
        "r_squared": ("R², family", "{:.4f}"),
    }
    caption = (
        f"<b>Exponents of two designs, trained on the same text,</b> with {level:.0%} intervals of the difference: by "
        "documents, and by how models scatter."
    )
    rows = _labelled(table).assign(family=table["family"].map(family_label))
    return shown(rows, columns, caption=caption, data=table)
