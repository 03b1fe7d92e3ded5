"""Chapter "Are ranks lognormal?": three ways to make a whole rank of a lognormal, and what a test says of each."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2

from companion.chapters.lognormal import distribution_of, of_models, row_of
from companion.evidence import published
from rbp.measurements.histograms import MeasuredRanks
from rbp.report.display import shown

ROUNDINGS = {
    "lognormal": "density at whole ranks",
    "lognormal_rounded": "rounded",
    "lognormal_ceiling": "rounded up",
}
"""The three ways to make a whole rank of a lognormal X, by the families' names. Where rank 2 is the first, rounded is
the authors' histogram; the density at whole ranks, from 1, is equation 10 of the paper.
"""


def roundings(group: Sequence[MeasuredRanks], table: pd.DataFrame) -> pd.DataFrame:
    """The lognormal by each of ROUNDINGS, with rank 1 and without; by `fits` of a group.

    Columns rounding, model, size, first, at_limit, mu, sigma (missing at the limit), excess, deviance, df, and
    mu_published, sigma_published.
    """
    rows = []
    for name, first in product(ROUNDINGS, (1, 2)):
        for own in group:
            row = row_of(table, own, name, first)
            values = (np.nan, np.nan) if row["at_limit"] else distribution_of(row).parameters.values()
            mu, sigma = values
            about = {"rounding": name, "model": own.model, "size": own.size, "first": first}
            rows.append(about | {"mu": mu, "sigma": sigma} | dict(row[["at_limit", "excess", "deviance", "df"]]))
    given = published.lognormal_parameters().query("dataset == @group[0].dataset")[["model", "mu", "sigma"]]
    return pd.DataFrame(rows).merge(given, on="model", how="left", suffixes=("", "_published"))


def of_roundings(group: Sequence[MeasuredRanks], table: pd.DataFrame) -> dict[str, Any]:
    """What `roundings` say, and how far every distribution of the group's `fits` is from passing a test."""
    found, table = roundings(group, table), of_models(group, table)
    whole, tail = found[found["first"] == 1], found[found["first"] == 2]
    limits = {f"limits.{name}": int(whole.loc[whole["rounding"] == name, "at_limit"].sum()) for name in ROUNDINGS}
    off = (tail["sigma"] - tail["sigma_published"]).abs().groupby(tail["rounding"]).max()
    up = whole[whole["rounding"] == "lognormal_ceiling"].sort_values("size")
    best = table[table["first"] == 1].groupby("distribution")["excess"].mean()
    return (
        limits
        | {
            "up.sigma.first": up["sigma"].iloc[0],
            "up.sigma.last": up["sigma"].iloc[-1],
            "up.excess_max": up["excess"].max(),
            "up.excess_min": up["excess"].min(),
            "cutoff.excess_min": table.loc[
                (table["first"] == 1) & (table["distribution"] == "power_law_cutoff"), "excess"
            ].min(),
            "up.better_than": int((best > best["lognormal_ceiling"]).sum()),
            "distributions": len(best),
            "passed": int((chi2.sf(table["deviance"], table["df"]) > 0.05).sum()),
            "tested": len(table),
            "deviance_least": (table["deviance"] / table["df"]).min(),
        }
        | {f"sigma_off.{name}": float(value) for name, value in off.items()}
    )


def roundings_shown(found: pd.DataFrame) -> dict[str, Any]:
    """The rows of `roundings`, for `Page.table`."""
    rows = found.assign(
        rounding=found["rounding"].map(ROUNDINGS),
        ranks=found["first"].map({1: "all", 2: "from 2"}),
        best=np.where(found["at_limit"], "none", "yes"),
    )
    return shown(
        rows,
        {
            "rounding": "X made whole",
            "ranks": "ranks",
            "model": "model",
            "best": "best lognormal",
            "mu": ("μ", "{:.2f}"),
            "sigma": ("σ", "{:.2f}"),
            "sigma_published": ("authors’ σ", "{:.2f}"),
            "excess": ("excess, nats a token", "{:.4f}"),
            "deviance": ("deviance", "{:,.0f}"),
            "df": "df",
        },
        caption="<b>Whether a best lognormal exists depends on how X is made a whole rank.</b> Excess: by how much the "
        "fit is less likely than the measured shares. A fit passes an exact test if its deviance is about its df.",
        data=found,
    )
