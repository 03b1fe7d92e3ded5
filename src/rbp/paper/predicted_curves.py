"""What the lognormal hypothesis predicts for cross-entropy and −ln RBP_1 (figure 8b), beside what was measured."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rbp.evidence import published
from rbp.evidence.histograms import MeasuredRanks
from rbp.paper.appendix_c.numbers import authors_points, equation_terms
from rbp.stats.compare import paired_exponents
from rbp.stats.power_law import fit_power_law
from rbp.stats.rank_families import family
from rbp.stats.rank_fits import RankDistribution, fit

METRICS = ("cross_entropy", "neg_log_rbp1")
MEASURED, PUBLISHED, FORMULA = "measured", "the authors’ prediction, as published", "the appendix’s formula"
EXACT, FINITE = "exact sums to infinity", "exact sums over the vocabulary"
KINDS = {MEASURED: "measured", PUBLISHED: "published", FORMULA: "formula", EXACT: "exact", FINITE: "finite"}
"""The kinds of curves in a table's order, with the names under which their numbers are recorded."""

_KIND = {"empirical": MEASURED, "simulated": PUBLISHED}


def both_metrics() -> pd.DataFrame:
    """Both metrics of the ten Pythia models: measured, as published by the authors, and computed here in three ways.

    Columns model, size, kind (MEASURED, PUBLISHED, FORMULA, EXACT or FINITE), metric, value. FORMULA takes the authors'
    μ and σ through equations 16, 20 and 21; EXACT sums equations 11 and 17 exactly; FINITE stops at the vocabulary.
    """
    points = equation_terms(authors_points())
    sizes = points.set_index("model")["size"]
    given = published.cross_entropy_vs_rbp1()
    parts = [given.assign(kind=given["kind"].map(_KIND), size=given["model"].map(sizes))]
    for kind, suffix in ((FORMULA, "_approx"), (EXACT, "")):
        for metric, column in zip(METRICS, ("entropy", "neg_log_p1"), strict=True):
            value = points[column + suffix]
            parts.append(points[["model", "size"]].assign(kind=kind, metric=metric, value=value))
    for row in points.to_dict("records"):
        own = RankDistribution(family("lognormal"), (row["mu"], row["sigma"]), row["vocabulary"])
        values = [own.entropy, -float(own.logpmf(1))]
        here = {"model": row["model"], "size": row["size"], "kind": FINITE}
        parts.append(pd.DataFrame([here | {"metric": m, "value": v} for m, v in zip(METRICS, values, strict=True)]))
    table = pd.concat(parts, ignore_index=True)[["model", "size", "kind", "metric", "value"]]
    return table.sort_values(["metric", "kind", "size"], ignore_index=True)


def exponents(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The two exponents of each kind of `both_metrics`, with the paired test of their difference, and R² of each line.

    Columns kind, key (of KINDS), n, difference (α of cross-entropy less α of −ln RBP_1), low, high, p,
    difference_relative (its size in per cent of the larger exponent); alpha_ce, alpha_ce_low, alpha_ce_high,
    r_squared_ce, and the same of p1.
    """
    rows = []
    for kind, key in KINDS.items():
        wide = table[table["kind"] == kind].pivot_table(index="size", columns="metric", values="value")
        test = paired_exponents(wide.index, *(wide[metric] for metric in METRICS), level=level)
        row = {"kind": kind, "key": key, "n": len(wide), "difference": test.difference}
        row |= {"low": test.low, "high": test.high, "p": test.p}
        row |= {"difference_relative": 100 * abs(test.difference) / max(test.alpha_first, test.alpha_second)}
        for name, metric in zip(("ce", "p1"), METRICS, strict=True):
            law = fit_power_law(wide.index, wide[metric], level=level)
            row |= {
                f"alpha_{name}": law.alpha,
                f"alpha_{name}_low": law.alpha_low,
                f"alpha_{name}_high": law.alpha_high,
            }
            row |= {f"r_squared_{name}": law.r_squared}
        rows.append(row)
    return pd.DataFrame(rows)


def levels(table: pd.DataFrame) -> pd.DataFrame:
    """Each prediction over the measured value, by model: kind, metric, model, size, value, measured, ratio."""
    measured = table[table["kind"] == MEASURED].set_index(["model", "metric"])["value"].rename("measured")
    others = table[table["kind"] != MEASURED].join(measured, on=["model", "metric"])
    return others.assign(ratio=others["value"] / others["measured"])


def fits_with_and_without_1(ranks: Sequence[MeasuredRanks]) -> pd.DataFrame:
    """Lognormal fits of measured ranks, from rank 2 as the authors' library does, and with rank 1.

    Columns model, size, vocabulary; mu, sigma: of the continuous lognormal, rounded, from rank 2; density_p1: what
    equation 10 makes of rank 1 at them; measured_p1; limit: whether with rank 1 the likelihood has its maximum at
    σ → ∞; tau: the curvature 1/σ² that the ranks want then, of either sign; power_law_p1: of the power law that is
    left. mu, sigma and density_p1 are missing where the ranks from 2 want σ → ∞ as well.
    """
    rows = []
    for own in ranks:
        rounded = fit(family("lognormal_rounded"), own.counts, first=2)
        whole = fit(family("lognormal"), own.counts)
        free = fit(family("log_quadratic"), own.counts).distribution
        power = fit(family("power_law"), own.counts).distribution
        vocabulary = own.counts.vocabulary
        mu = sigma = density_p1 = np.nan
        if not rounded.at_limit:
            mu, sigma = rounded.distribution.parameters.values()
            density_p1 = _p1(RankDistribution(family("lognormal"), (mu, sigma), vocabulary))
        rows.append(
            {
                "model": own.model,
                "size": own.size,
                "vocabulary": vocabulary,
                "mu": mu,
                "sigma": sigma,
                "density_p1": density_p1,
                "measured_p1": float(np.exp(-own.neg_log_rbp1)),
                "limit": whole.at_limit,
                "tau": free.parameters["tau"],
                "power_law_p1": _p1(power),
            }
        )
    return pd.DataFrame(rows)


def as_drawn(ranks: Sequence[MeasuredRanks]) -> pd.DataFrame:
    """How close a fit from rank 2 comes in figure 8c: R² of ln(mass/width) over its bins.

    A row for each model and distribution: the authors' lognormal (continuous, rounded), and a power law, to tell how
    mild a test this is. Columns model, size, distribution, r_squared. A bin without tokens has no logarithm and is
    left out.
    """
    rows = []
    for own in ranks:
        counts = own.counts.since(2)
        seen = counts.count > 0
        width = (counts.high - counts.low + 1)[seen]
        y = np.log(counts.count[seen] / counts.total / width)
        for name in ("lognormal_rounded", "power_law"):
            fitted = fit(family(name), own.counts, first=2).distribution
            off = y - np.log(counts.sums(fitted.masses, 2)[seen] / width)
            r_squared = 1 - float((off**2).sum() / ((y - y.mean()) ** 2).sum())
            rows.append({"model": own.model, "size": own.size, "distribution": name, "r_squared": r_squared})
    return pd.DataFrame(rows)


def _p1(distribution: RankDistribution) -> float:
    return float(distribution.pmf(1))
