"""The tables of the chapters on lognormal ranks: each function gives what `page.table` takes besides a name."""

from typing import Any

import pandas as pd

from rbp.paper.display import INTERVAL_4, Column, shown
from rbp.paper.rank_distributions import limit_note, plain
from rbp.paper.wording import cell_label
from rbp.stats.rank_families import FAMILIES

Shown = dict[str, Any]
Headings = dict[str | tuple[str, ...], Column]


def _all_as(how: str, **headings: str) -> Headings:
    """Columns by their headings, all in one format."""
    return {column: (heading, how) for column, heading in headings.items()}


def _distribution(heading: str) -> Headings:
    return {"distribution": (heading, lambda name: FAMILIES[name].label)}


def _smallest_and_largest(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["size"].isin([table["size"].min(), table["size"].max()])]


# ── Appendix C, line by line


def terms(table: pd.DataFrame) -> Shown:
    """A table of `numbers.equation_terms`."""
    sums = {"neg_log_p1": "−ln p₁", "entropy": "CE", "fraction": "CE + ln p₁", "fraction_approx": "(26) as printed"}
    sums |= {"c_over_phi": "c/φ(μ/σ)"}
    return shown(
        table,
        {"model": "model"}
        | _all_as("{:.2f}", mu="μ", sigma="σ")
        | _all_as("{:.3f}", lam="λ", log_c="ln c", log_scale="ln(√(2π)σ)", square="μ²/(2σ²)", **sums),
        caption="<b>Every term at the ten points</b>, by sums in 40 digits. −ln p₁ is the sum of the three columns "
        "before it. CE + ln p₁ is by how much CE exceeds −ln p₁; the fraction of equation 26 approximates it.",
    )


# ── Is cross-entropy the entropy of the ranks?


def entropies(own: pd.DataFrame, data: pd.DataFrame) -> Shown:
    """Rows of `premise.entropies` of one family on one dataset, by size."""
    own = own.assign(note=["at its limit: power law" if limit else "" for limit in own["at_limit"]])
    measured = {"cross_entropy": "cross-entropy", "rank_entropy": "entropy of ranks"}
    formula = {"exact": "authors’ μ, σ: exact", "formula": "authors’ μ, σ: formula"}
    gap = {"gap": "entropy of ranks − cross-entropy"}
    return shown(
        own,
        {"model": "model"}
        | _all_as("{:.3f}", **measured, lognormal="lognormal, all ranks", **formula, **gap)
        | {"note": "the lognormal is"},
        caption=f"<b>All in nats</b>, {cell_label(own.iloc[0])}. Bins leave the entropy of ranks open by at most "
        f"{own['bin_width'].max():.3f} nats.",
        data=data,
    )


# ── Does the lognormal predict both curves?


def predicted(exponents: pd.DataFrame, level: float) -> Shown:
    """The table of `predicted_curves.exponents`."""
    alpha = "{:.4f} " + INTERVAL_4
    return shown(
        exponents,
        {
            "kind": "curves",
            ("alpha_ce", "alpha_ce_low", "alpha_ce_high"): ("α, cross-entropy", alpha),
            ("alpha_p1", "alpha_p1_low", "alpha_p1_high"): ("α, −ln RBP₁", alpha),
            "difference": ("difference", "{:+.4f}"),
            ("low", "high"): (f"{level:.0%} interval", INTERVAL_4),
        },
        caption="<b>Exponents of the curves</b> over the same ten models, and the paired test of their difference "
        "(cross-entropy less −ln RBP₁).",
    )


def rank_1(fits: pd.DataFrame) -> Shown:
    """`predicted_curves.fits_with_and_without_1`, with the published parameters as mu_published, sigma_published."""
    ours = {"mu": "μ, ours", "mu_published": "μ, published", "sigma": "σ, ours", "sigma_published": "σ, published"}
    p1 = {"measured_p1": "RBP₁ measured", "density_p1": "p₁ by equation 10", "discrete_p1": "p₁, discrete fit"}
    return shown(
        fits,
        {"model": "model"}
        | _all_as("{:,}", vocabulary="V")
        | _all_as("{:.3f}", **ours, **p1)
        | _all_as("{:.4f}", tau="1/σ² with rank 1")
        | _all_as("{:.3f}", power_law_p1="p₁, power law"),
        caption="<b>Fits of the measured ranks from 2 up, and what they make of rank 1.</b> p₁ by equation 10 takes "
        "the fitted μ and σ; the discrete fit is a lognormal on whole numbers fitted from rank 2, carried on to rank "
        "1. With rank 1 in the fit the best 1/σ² is negative: no lognormal has that. The best lognormal is then the "
        "limit σ → ∞, a power law; its p₁ is in the last column.",
    )


# ── Are ranks lognormal?


def fits(from_1: pd.DataFrame, data: pd.DataFrame) -> Shown:
    """Every family at the smallest and the largest of the models in `from_1`: rows of `fits`, of all ranks."""
    ends = plain(_smallest_and_largest(from_1)).sort_values(["size", "per_token"], ascending=[True, False])
    below = ends.groupby("model")["per_token"].transform("max") - ends["per_token"]
    vocabularies = " and ".join(f"{each:,}" for each in ends.groupby("size")["vocabulary"].first())
    return shown(
        ends.assign(below=below, note=[limit_note(row) for _, row in ends.iterrows()]),
        {"model": "model"}
        | _distribution("family")
        | {"count": "parameters"}
        | _all_as("{:.4f}", below="nats per token below best", distance="KS distance")
        | _all_as("{:.3f}", p1="p₁", entropy="entropy")
        | {"note": "note"},
        caption=f"<b>Fits of all ranks, smallest and largest model of {cell_label(ends.iloc[0])}.</b> KS: the largest "
        "gap between the distribution functions. With so many tokens, distances say "
        f"more than p-values. V = {vocabularies}.",
        data=data,
    )


def distances(documented: pd.DataFrame) -> Shown:
    """KS distances with their intervals, at the smallest and the largest model: rows of `fits` that have these."""
    ends = _smallest_and_largest(documented).sort_values(["size", "distance"])
    return shown(
        ends,
        {"model": "model"}
        | _distribution("family")
        | {"distance": ("KS distance", "{:.4f}"), ("distance_low", "distance_high"): ("95% by documents", INTERVAL_4)},
        caption="<b>KS distances with intervals from resampling whole documents</b>, "
        f"{cell_label(ends.iloc[0])}, smallest and largest model; the fit is kept.",
        data=documented,
    )


def bootstrap(table: pd.DataFrame) -> Shown:
    """The step `rank_bootstrap`."""
    return shown(
        table,
        {"model": "model"}
        | _distribution("family")
        | _all_as("{:.4f}", distance="KS distance", largest="largest of the draws")
        | {("exceeded", "draws"): ("draws as far", "{} of {}")},
        caption="<b>Parametric bootstrap</b> of the three nearest families on the smallest and the largest rung. If "
        "the family were true, a distance like the measured one would come up about as often as the last column says.",
    )


def versions(own: pd.DataFrame, data: pd.DataFrame) -> Shown:
    """μ and σ of both versions of the lognormal: `lognormal_errors` of one family on one dataset."""
    numbers = {"mu": "μ", "mu_error": "± μ", "sigma": "σ", "sigma_error": "± σ", "ratio": "μ/σ", "ratio_error": "± μ/σ"}
    return shown(
        own,
        {"model": "model"}
        | _all_as("{:,}", vocabulary="V")
        | _distribution("version")
        | _all_as("{:.3f}", **numbers)
        | {"correlation": ("correlation", "{:.4f}")},
        caption="<b>Two versions of one lognormal, fitted to the same ranks from 2 up.</b> Errors are standard errors "
        "for independent tokens; a fit at its limit has no μ and no σ.",
        data=data,
    )


def exponents(lines: pd.DataFrame, models: int, level: float, data: pd.DataFrame) -> Shown:
    """`exponents_on_lines` of one family of so many models on one dataset."""
    words = [
        f"no line: at its limit at {limits} of {models} models" if limits else "yes" if both else "no"
        for limits, both in zip(lines["at_limit"], lines["both"], strict=True)
    ]
    p1 = {"line_alpha_p1": "α of −ln p₁", "alpha_p1": "measured"}
    entropy = {"line_alpha_entropy": "α of the entropy", "alpha_entropy": "measured "}
    return shown(
        lines.assign(words=words),
        {"family": "models", "dataset": "dataset"}
        | _distribution("distribution")
        | _all_as("{:.4f}", **p1, **entropy, alpha_ce="α of cross-entropy, measured")
        | {"words": "both within the intervals"},
        caption="<b>Exponents that follow if a family’s parameters lie on straight lines in ln S</b>, "
        f"{cell_label(lines.iloc[0])}, beside the measured ones. “Within” means inside the {level:.0%} intervals of "
        "the measured exponents.",
        data=data,
    )


def agreement(counted: pd.DataFrame, groups: int) -> Shown:
    """`rank_distributions.agreement`, over so many families and datasets."""
    return shown(
        counted,
        _distribution("distribution") | {"both_in": "gives both exponents", "lines_in": "has a maximum at every model"},
        caption=f"<b>In how many of {groups} combinations of models and dataset</b> lines can be drawn through a "
        "family’s parameters, and give both exponents within the measured intervals.",
    )
