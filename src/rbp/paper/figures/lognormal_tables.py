"""The tables of the chapters on lognormal ranks: each function gives what `page.table` takes besides a name."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from rbp.paper.against_print import interval
from rbp.paper.rank_distributions import limit_note, plain
from rbp.paper.wording import cell_label, dataset_label, model_label
from rbp.stats.rank_families import FAMILIES

Shown = dict[str, Any]
"""table, caption, formats, data: arguments of `rbp.book.page.Page.table`."""

Columns = Mapping[str, tuple[str, Any]]
"""What is shown of a table: column → its heading, and its format or None."""


def shown(table: pd.DataFrame, columns: Columns, caption: str, data: pd.DataFrame | None = None) -> Shown:
    """Columns of a table under their headings; `data` is what can be downloaded, or else the table."""
    formats = {heading: how for heading, how in columns.values() if how}
    named = table[list(columns)].set_axis([heading for heading, _ in columns.values()], axis=1)
    return {"table": named, "caption": caption, "formats": formats, "data": table if data is None else data}


def _family(name: str) -> str:
    return FAMILIES[name].label


def _intervals(table: pd.DataFrame, low: str, high: str) -> list[str]:
    return [interval(*ends, 4) for ends in zip(table[low], table[high], strict=True)]


# ── Appendix C, line by line


def terms(table: pd.DataFrame) -> Shown:
    """A table of `numbers.equation_terms`."""
    numbers = {
        "lam": "λ",
        "log_c": "ln c",
        "log_scale": "ln(√(2π)σ)",
        "square": "μ²/(2σ²)",
        "neg_log_p1": "−ln p₁",
        "fraction": "fraction (26)",
        "entropy": "CE",
        "c_over_phi": "c/φ(μ/σ)",
    }
    return shown(
        table,
        {"model": ("model", model_label), "mu": ("μ", "{:.2f}"), "sigma": ("σ", "{:.2f}")}
        | {column: (heading, "{:.3f}") for column, heading in numbers.items()},
        "<b>Every term at the ten points</b>, by sums in 40 digits. −ln p₁ is the sum of the three columns before it; "
        "CE is −ln p₁ plus the fraction.",
    )


# ── Is cross-entropy the entropy of the ranks?


def entropies(own: pd.DataFrame, data: pd.DataFrame) -> Shown:
    """Rows of `premise.entropies` of one family on one dataset, by size."""
    numbers = {
        "cross_entropy": "cross-entropy",
        "rank_entropy": "entropy of ranks",
        "lognormal": "lognormal, all ranks",
        "exact": "authors’ μ, σ: exact",
        "formula": "authors’ μ, σ: formula",
        "gap": "entropy of ranks − cross-entropy",
    }
    return shown(
        own.assign(note=["at its limit: power law" if limit else "" for limit in own["at_limit"]]),
        {"model": ("model", model_label)}
        | {column: (heading, "{:.3f}") for column, heading in numbers.items()}
        | {"note": ("the lognormal is", None)},
        f"<b>All in nats</b>, {cell_label(own.iloc[0])}. Bins leave the entropy of ranks open by at most "
        f"{own['bin_width'].max():.3f} nats.",
        data,
    )


# ── Does the lognormal predict both curves?


def predicted(exponents: pd.DataFrame, level: float) -> Shown:
    """The table of `predicted_curves.exponents`."""

    def beside(name: str) -> list[str]:
        ends = _intervals(exponents, f"{name}_low", f"{name}_high")
        return [f"{alpha:.4f} {interval}" for alpha, interval in zip(exponents[name], ends, strict=True)]

    return shown(
        exponents.assign(ce=beside("alpha_ce"), p1=beside("alpha_p1"), interval=_intervals(exponents, "low", "high")),
        {
            "kind": ("curves", None),
            "ce": ("α, cross-entropy", None),
            "p1": ("α, −ln RBP₁", None),
            "difference": ("difference", "{:+.4f}"),
            "interval": (f"{level:.0%} interval", None),
        },
        "<b>Exponents of the curves</b> over the same ten models, and the paired test of their difference "
        "(cross-entropy less −ln RBP₁).",
        exponents,
    )


def rank_1(fits: pd.DataFrame) -> Shown:
    """`predicted_curves.fits_with_and_without_1`, with the published parameters as mu_published, sigma_published."""
    parameters = {
        "mu": "μ, ours",
        "mu_published": "μ, published",
        "sigma": "σ, ours",
        "sigma_published": "σ, published",
    }
    return shown(
        fits,
        {"model": ("model", model_label), "vocabulary": ("V", "{:,}")}
        | {column: (heading, "{:.3f}") for column, heading in parameters.items()}
        | {
            "measured_p1": ("RBP₁ measured", "{:.3f}"),
            "density_p1": ("p₁ by equation 10", "{:.3f}"),
            "discrete_p1": ("p₁, discrete fit", "{:.3f}"),
            "tau": ("1/σ² with rank 1", "{:.4f}"),
            "power_law_p1": ("p₁, power law", "{:.3f}"),
        },
        "<b>Fits of the measured ranks from 2 up, and what they make of rank 1.</b> p₁ by equation 10 takes the fitted "
        "μ and σ; the discrete fit is a lognormal on whole numbers fitted from rank 2, carried on to rank 1. With rank "
        "1 in the fit the best 1/σ² is negative: no lognormal has that. The best lognormal is then the limit σ → ∞, a "
        "power law; its p₁ is in the last column.",
    )


# ── Are ranks lognormal?


def fits(from_1: pd.DataFrame, data: pd.DataFrame) -> Shown:
    """Every family at the smallest and the largest of the models in `from_1`: rows of `fits`, of all ranks."""
    ends = plain(from_1[from_1["size"].isin([from_1["size"].min(), from_1["size"].max()])])
    ends = ends.sort_values(["size", "per_token"], ascending=[True, False])
    vocabularies = " and ".join(f"{each:,}" for each in ends.groupby("size")["vocabulary"].first())
    return shown(
        ends.assign(
            below=ends.groupby("model")["per_token"].transform("max") - ends["per_token"],
            note=[limit_note(row) for _, row in ends.iterrows()],
        ),
        {
            "model": ("model", model_label),
            "distribution": ("family", _family),
            "count": ("parameters", None),
            "below": ("nats per token below best", "{:.4f}"),
            "distance": ("KS distance", "{:.4f}"),
            "p1": ("p₁", "{:.3f}"),
            "entropy": ("entropy", "{:.3f}"),
            "note": ("note", None),
        },
        f"<b>Fits of all ranks, smallest and largest model of {cell_label(ends.iloc[0])}.</b> KS: the largest gap "
        "between the distribution functions. All families are rejected at these numbers of tokens; distances say more "
        f"than p-values. V = {vocabularies}.",
        data,
    )


def distances(documented: pd.DataFrame) -> Shown:
    """KS distances with their intervals, at the smallest and the largest model: rows of `fits` that have these."""
    ends = documented[documented["size"].isin([documented["size"].min(), documented["size"].max()])]
    ends = ends.sort_values(["size", "distance"])
    return shown(
        ends.assign(interval=_intervals(ends, "distance_low", "distance_high")),
        {
            "model": ("model", model_label),
            "distribution": ("family", _family),
            "distance": ("KS distance", "{:.4f}"),
            "interval": ("95% by documents", None),
        },
        "<b>KS distances with intervals from resampling whole documents</b>, "
        f"{cell_label(ends.iloc[0])}, smallest and largest model; the fit is kept.",
        documented,
    )


def bootstrap(table: pd.DataFrame) -> Shown:
    """The step `rank_bootstrap`."""
    return shown(
        table.assign(share=[f"{row.exceeded} of {row.draws}" for row in table.itertuples()]),
        {
            "model": ("model", model_label),
            "distribution": ("family", _family),
            "distance": ("KS distance", "{:.4f}"),
            "largest": ("largest of the draws", "{:.4f}"),
            "share": ("draws as far", None),
        },
        "<b>Parametric bootstrap</b> of the three nearest families on the smallest and the largest rung. If the family "
        "were true, a distance like the measured one would come up about as often as the last column says.",
        table,
    )


def versions(own: pd.DataFrame, data: pd.DataFrame) -> Shown:
    """μ and σ of both versions of the lognormal: `lognormal_errors` of one family on one dataset."""
    numbers = {"mu": "μ", "mu_error": "± μ", "sigma": "σ", "sigma_error": "± σ", "ratio": "μ/σ", "ratio_error": "± μ/σ"}
    return shown(
        own,
        {"model": ("model", model_label), "vocabulary": ("V", "{:,}"), "distribution": ("version", _family)}
        | {column: (heading, "{:.3f}") for column, heading in numbers.items()}
        | {"correlation": ("correlation", "{:.4f}")},
        "<b>Two versions of one lognormal, fitted to the same ranks from 2 up.</b> Errors are standard errors for "
        "independent tokens; a fit at its limit has no μ and no σ.",
        data,
    )


def exponents(lines: pd.DataFrame, models: int, level: float, data: pd.DataFrame) -> Shown:
    """`exponents_on_lines` of one family of so many models on one dataset."""
    words = [
        f"no line: at its limit at {limits} of {models} models" if limits else "yes" if both else "no"
        for limits, both in zip(lines["at_limit"], lines["both"], strict=True)
    ]
    columns = {
        "line_alpha_p1": "α of −ln p₁",
        "alpha_p1": "measured",
        "line_alpha_entropy": "α of the entropy",
        "alpha_entropy": "measured ",
        "alpha_ce": "α of cross-entropy, measured",
    }
    return shown(
        lines.assign(words=words),
        {"family": ("models", None), "dataset": ("dataset", dataset_label), "distribution": ("distribution", _family)}
        | {column: (heading, "{:.4f}") for column, heading in columns.items()}
        | {"words": ("both within the intervals", None)},
        f"<b>Exponents that follow if a family’s parameters lie on straight lines in ln S</b>, "
        f"{cell_label(lines.iloc[0])}, beside the measured ones. “Within” means inside the {level:.0%} intervals of "
        "the measured exponents.",
        data,
    )


def agreement(counted: pd.DataFrame, groups: int) -> Shown:
    """`rank_distributions.agreement`, over so many families and datasets."""
    return shown(
        counted,
        {
            "distribution": ("distribution", _family),
            "both_in": ("gives both exponents", None),
            "lines_in": ("has a maximum at every model", None),
        },
        f"<b>In how many of {groups} combinations of models and dataset</b> lines can be drawn through a family’s "
        "parameters, and give both exponents within the measured intervals.",
    )
