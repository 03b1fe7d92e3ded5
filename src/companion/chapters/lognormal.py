"""Are ranks lognormal, and would cross-entropy and −ln RBP_1 then scale alike (5.2, figure 8, appendix C)?

Three questions, in this order: which distribution measured ranks follow; what the authors' μ and σ predict; and which
distributions give both metrics' exponents.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import chi2

from companion.chapters.appendix.algebra.numbers import authors_points, equation_terms
from companion.evidence import published
from companion.stats.compare import paired_exponents
from companion.stats.rank_families import FAMILIES, family
from companion.stats.rank_fits import MARGIN, RankDistribution, fit
from rbp.figures.style import INK, Panels, legend_below, log_axis
from rbp.figures.wording import dataset_label, listed, model_label
from rbp.laws.power import fit_power_law
from rbp.measurements import histograms
from rbp.measurements.histograms import MeasuredRanks
from rbp.report.display import shown

CELL = ["family", "dataset"]
ROUNDINGS = {
    "lognormal": "density at integer ranks",
    "lognormal_rounded": "rounded",
    "lognormal_ceiling": "rounded up",
}
"""The three ways to make a whole rank of a lognormal X, by the families' names. Where rank 2 is the first, rounded is
the authors' histogram; the density at integer ranks, from 1, is equation 10 of the paper.
"""

# Which family do measured ranks follow?


def fit_distributions(measured: Iterable[MeasuredRanks], firsts: Sequence[int] = (1, 2)) -> pd.DataFrame:
    """Fit every distribution to every model's ranks, from each rank of `firsts` on.

    With a free share for rank 1 the likelihood is that from rank 2 and the share's: the fits from 2 are also those of
    mixtures with a point mass at 1.

    Columns dataset, model, family, size, vocabulary, first, distribution, count (how many parameters it has), found
    (the distribution that was found: its limit where at_limit), parameters (of that, as JSON), per_token
    (log-likelihood), excess (nats per token above what the bins' shares would have), deviance (2·tokens·excess), df
    (bins with a token less one and the parameters), at_limit, p1 and entropy (missing unless first is 1).
    """
    return pd.DataFrame([_row(ranks, name, first) for ranks in measured for first in firsts for name in FAMILIES])


def _row(ranks: MeasuredRanks, name: str, first: int) -> dict[str, object]:
    best = fit(family(name), ranks.counts, first=first)
    distribution, from_1 = best.distribution, first == 1
    seen = ranks.counts.since(first).count
    share = seen[seen > 0] / best.total
    excess = float(share @ np.log(share)) - best.per_token
    return _names(ranks) | {
        "vocabulary": ranks.counts.vocabulary,
        "first": first,
        "distribution": name,
        "count": len(best.family.parameters),
        "found": distribution.family.name,
        "parameters": json.dumps(distribution.parameters),
        "per_token": best.per_token,
        "excess": excess,
        "deviance": 2 * best.total * excess,
        "df": len(share) - 1 - len(best.family.parameters),
        "at_limit": best.at_limit,
        "p1": float(distribution.pmf(1)) if from_1 else np.nan,
        "entropy": distribution.entropy if from_1 else np.nan,
    }


def _names(ranks: MeasuredRanks) -> dict[str, object]:
    return {"dataset": ranks.dataset, "model": ranks.model, "family": ranks.family, "size": ranks.size}


def distribution_of(row: pd.Series) -> RankDistribution:
    """Return the fitted distribution of a row of `fit_distributions`."""
    parameters = json.loads(row["parameters"])
    return RankDistribution.of(family(row["found"]), parameters, int(row["vocabulary"]), int(row["first"]))


def row_of(table: pd.DataFrame, ranks: MeasuredRanks, distribution: str, first: int = 1) -> pd.Series:
    """Select the row of `fit_distributions` of one model and one distribution."""
    here = (table["dataset"] == ranks.dataset) & (table["model"] == ranks.model) & (table["first"] == first)
    return table[here & (table["distribution"] == distribution)].iloc[0]


def main_group(measured: Iterable[MeasuredRanks]) -> list[MeasuredRanks]:
    """Select the models of the largest model's family on its dataset, by size."""
    by_size = sorted(measured, key=lambda ranks: ranks.size)
    return [ranks for ranks in by_size if (ranks.family, ranks.dataset) == (by_size[-1].family, by_size[-1].dataset)]


def of_group(table: pd.DataFrame, group: Sequence[MeasuredRanks], first: int) -> pd.DataFrame:
    """Select the rows of `fit_distributions` of a group of models on one dataset, for the ranks from `first` on."""
    here = (table["dataset"] == group[0].dataset) & (table["family"] == group[0].family)
    return table[here & (table["first"] == first)]


def _means(table: pd.DataFrame) -> pd.Series:
    """Average the log-likelihood per token of each family over the models of `table`, largest first."""
    return table.groupby("distribution")["per_token"].mean().sort_values(ascending=False, kind="stable")


def list_likelier(table: pd.DataFrame, name: str) -> list[str]:
    """List the families likelier than `name` by more than rounding can change (`MARGIN`), the likeliest first."""
    mean = _means(table)
    return [str(other) for other in mean.index if mean[other] > mean[name] + MARGIN]


def describe_place(table: pd.DataFrame, name: str) -> str:
    """Rank a family by its likelihood: "third of 5 (level with the power law)", within `MARGIN`."""
    mean = _means(table)
    level = [FAMILIES[other].label for other in mean.index if other != name and abs(mean[other] - mean[name]) <= MARGIN]
    order = ("the best", "second", "third", "fourth", "fifth", "sixth")[len(list_likelier(table, name))]
    return f"{order} of {len(mean)}" + (f" (level with the {' and '.join(level)})" if level else "")


def rank_1(group: Sequence[MeasuredRanks], table: pd.DataFrame) -> pd.DataFrame:
    """Compare rank 1 with the lognormal fitted from rank 2, as by the authors' library; table: of `fit_distributions`.

    Columns model, size; measured_p1; density_p1: what equation 10 makes of rank 1 at the μ and σ of the rounded
    lognormal from rank 2 (missing at a limit); r_squared, r_squared_power_law: how close it and the power law come from
    rank 2 as figure 8c draws them.
    """
    rows = []
    for ranks in group:
        at_limit, density_p1 = row_of(table, ranks, "lognormal_rounded", 2)["at_limit"], np.nan
        rounded, power_law = (
            distribution_of(row_of(table, ranks, name, 2)) for name in ("lognormal_rounded", "power_law")
        )
        if not at_limit:
            values = tuple(rounded.parameters.values())
            density_p1 = float(RankDistribution(family("lognormal"), values, ranks.counts.vocabulary).pmf(1))
        row = {"model": ranks.model, "size": ranks.size, "measured_p1": float(np.exp(-ranks.neg_log_rbp1))}
        row |= {"density_p1": density_p1, "r_squared": _r_squared(ranks, rounded)}
        rows.append(row | {"r_squared_power_law": _r_squared(ranks, power_law)})
    return pd.DataFrame(rows)


def _r_squared(ranks: MeasuredRanks, fitted: RankDistribution) -> float:
    counts = ranks.counts.since(2)
    seen = counts.count > 0
    width = (counts.high - counts.low + 1)[seen]
    y = np.log(counts.count[seen] / counts.total / width)
    off = y - np.log(counts.sums(fitted.masses, 2)[seen] / width)
    return 1 - float((off**2).sum() / ((y - y.mean()) ** 2).sum())


def list_roundings(group: Sequence[MeasuredRanks], table: pd.DataFrame) -> pd.DataFrame:
    """List the lognormal fitted by each of ROUNDINGS, with rank 1 and without, by `fit_distributions` of a group.

    Columns rounding, model, size, first, at_limit, mu, sigma (missing at the limit), excess, deviance, df, and
    mu_published, sigma_published.
    """
    rows = []
    for name, first in product(ROUNDINGS, (1, 2)):
        for ranks in group:
            row = row_of(table, ranks, name, first)
            values = (np.nan, np.nan) if row["at_limit"] else distribution_of(row).parameters.values()
            mu, sigma = values
            labels = {"rounding": name, "model": ranks.model, "size": ranks.size, "first": first}
            rows.append(labels | {"mu": mu, "sigma": sigma} | dict(row[["at_limit", "excess", "deviance", "df"]]))
    authors = published.lognormal_parameters().query("dataset == @group[0].dataset")[["model", "mu", "sigma"]]
    return pd.DataFrame(rows).merge(authors, on="model", how="left", suffixes=("", "_published"))


def falls_of_ratio(rounded: pd.DataFrame) -> dict[str, float]:
    """Compute the fall of μ/σ per unit of ln S, for both versions of the lognormal from rank 2, none at its limit.

    rounded: `list_roundings`. Keys ratio_falls.lognormal, ratio_falls.lognormal_rounded; {} for fewer than three.
    """
    falls = {}
    for name in ("lognormal", "lognormal_rounded"):
        rows = rounded[(rounded["rounding"] == name) & (rounded["first"] == 2)]
        if len(rows) > 2 and rows["mu"].notna().all():
            slope = np.polyfit(np.log(rows["size"].to_numpy(float)), rows["mu"] / rows["sigma"], 1)[0]
            falls[f"ratio_falls.{name}"] = -float(slope)
    return falls


# What do the authors' μ and σ predict?

METRICS = {"cross_entropy": "alpha_ce", "neg_log_rbp1": "alpha_p1"}  # and what their exponents are called
MEASURED, PUBLISHED, FORMULA = "measured", "as published", "formula"


def collect_predictions() -> pd.DataFrame:
    """Collect cross-entropy and −ln RBP_1 of ten Pythia models on Wikipedia: measured, and from the authors' μ and σ.

    Columns model, size, kind, metric (of METRICS), value. PUBLISHED: figure 8b; FORMULA: equations 16, 20 and 21.
    """
    points = equation_terms(authors_points())
    rows = [published.cross_entropy_vs_rbp1().replace({"kind": {"empirical": MEASURED, "simulated": PUBLISHED}})]
    for metric, column in (("cross_entropy", "entropy_approx"), ("neg_log_rbp1", "neg_log_p1_approx")):
        rows.append(points[["model"]].assign(kind=FORMULA, metric=metric, value=points[column]))
    table = pd.concat(rows)[["model", "kind", "metric", "value"]].merge(points[["model", "size"]], on="model")
    return table.sort_values(["metric", "kind", "size"], ignore_index=True)


def exponents(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Fit the exponents of `collect_predictions`, measured and by the formula, with a paired test of the two metrics'.

    Columns kind, alpha_ce, alpha_p1; difference (α of cross-entropy less α of −ln RBP_1), low, high;
    difference_relative (its size in per cent of the latter).
    """
    rows = []
    for kind in (MEASURED, FORMULA):
        wide = table[table["kind"] == kind].pivot_table(index="size", columns="metric", values="value")
        test = paired_exponents(wide.index, *(wide[metric] for metric in METRICS), level=level)
        alphas = {name: fit_power_law(wide.index, wide[metric]).alpha for metric, name in METRICS.items()}
        relative = 100 * abs(test.difference) / test.alpha_second
        row = {"kind": kind} | alphas | {"difference": test.difference, "low": test.low, "high": test.high}
        rows.append(row | {"difference_relative": relative})
    return pd.DataFrame(rows)


def compare_levels(table: pd.DataFrame) -> pd.DataFrame:
    """Divide each prediction by the measured value: kind, metric, and the least and largest ratio over the models."""
    measured = table[table["kind"] == MEASURED].set_index(["model", "metric"])["value"].rename("measured")
    others = table[table["kind"] != MEASURED].join(measured, on=["model", "metric"])
    ratio = (others["value"] / others["measured"]).groupby([others["kind"], others["metric"]])
    return ratio.agg(least="min", largest="max").reset_index()


# Which families give both metrics their exponents?


def exponents_on_lines(measured: Iterable[MeasuredRanks], table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Compute the exponents of −ln p₁ and the entropy of ranks for families whose parameters move with ln S.

    table: of `fit_distributions`. The natural parameters (by logarithms where they must be above 0) are put on straight
    lines in ln S, for each family of three models or more on each dataset.

    Columns family, dataset, distribution; at_limit (how many fits are; then no line); line_alpha_p1,
    line_alpha_entropy; alpha_p1, alpha_entropy, each also with _low and _high: measured; both: whether either lies
    within the measured interval.
    """
    groups: dict[tuple[str, str], list[MeasuredRanks]] = {}
    for ranks in sorted(measured, key=lambda ranks: ranks.size):
        groups.setdefault((ranks.family, ranks.dataset), []).append(ranks)
    rows = []
    for cell, group in groups.items():
        if len(group) < 3:
            continue
        sizes = [ranks.size for ranks in group]
        y = {"p1": [ranks.neg_log_rbp1 for ranks in group]}
        y["entropy"] = [histograms.entropy(ranks.counts)[0] for ranks in group]
        laws = {name: fit_power_law(sizes, values, level=level) for name, values in y.items()}
        measured_alphas: dict[str, object] = {}
        for name, law in laws.items():
            measured_alphas |= {
                f"alpha_{name}": law.alpha,
                f"alpha_{name}_low": law.alpha_low,
                f"alpha_{name}_high": law.alpha_high,
            }
        for distribution in FAMILIES:
            group_fits = [row_of(table, ranks, distribution) for ranks in group]
            limits = sum(bool(row["at_limit"]) for row in group_fits)
            alphas = _on_lines(group_fits) if not limits else (np.nan, np.nan)
            pairs = zip(alphas, laws.values(), strict=True)
            both = all(law.alpha_low <= alpha <= law.alpha_high for alpha, law in pairs)
            row = dict(zip(CELL, cell, strict=True)) | {"distribution": distribution, "at_limit": limits}
            row |= {"line_alpha_p1": alphas[0], "line_alpha_entropy": alphas[1], "both": both}
            rows.append(row | measured_alphas)
    return pd.DataFrame(rows)


def _on_lines(rows: Sequence[pd.Series]) -> tuple[float, float]:
    """Compute the two exponents from rows of `fit_distributions` of one family of distributions, none at its limit."""
    kind, x = family(rows[0]["distribution"]), np.log([row["size"] for row in rows])
    natural = np.array([kind.natural(np.array(distribution_of(row).values), 1) for row in rows])
    positive = list(kind.positive)
    natural[:, positive] = np.log(natural[:, positive])
    lines = np.column_stack([np.polyval(np.polyfit(x, column, 1), x) for column in natural.T])
    lines[:, positive] = np.exp(lines[:, positive])
    distributions = [
        RankDistribution(kind, tuple(map(float, kind.named(values, 1))), int(row["vocabulary"]))
        for values, row in zip(lines, rows, strict=True)
    ]
    sizes = np.exp(x)
    return (
        fit_power_law(sizes, [-float(distribution.logpmf(1)) for distribution in distributions]).alpha,
        fit_power_law(sizes, [distribution.entropy for distribution in distributions]).alpha,
    )


# What is recorded


def fits_summary(group: Sequence[MeasuredRanks], table: pd.DataFrame) -> dict[str, Any]:
    """Summarise the fits of the `main_group`: how close the lognormal comes, and what it predicts for rank 1."""
    from_2 = of_group(table, group, 2)
    firsts = rank_1(group, table)
    share = firsts["density_p1"] / firsts["measured_p1"]
    likelier = list_likelier(from_2[from_2["count"] <= 2], "lognormal")
    return {
        "models": len(group),
        "place.2": describe_place(from_2, "lognormal"),
        "better_2": listed((FAMILIES[name].label for name in likelier), joint="; "),
        "r_squared_min": firsts["r_squared"].min(),
        "r_squared_power_law_max": firsts["r_squared_power_law"].max(),
        "share_1_min": firsts["measured_p1"].min(),
        "share_1_max": firsts["measured_p1"].max(),
        "p1_share_min": share.min(),
        "p1_share_max": share.max(),
    }


def roundings_summary(group: Sequence[MeasuredRanks], table: pd.DataFrame) -> dict[str, Any]:
    """Summarise `list_roundings`, and how far every distribution of the group's fits is from passing a test."""
    rounded, table = list_roundings(group, table), of_models(group, table)
    from_1, tail = rounded[rounded["first"] == 1], rounded[rounded["first"] == 2]
    limits = {f"limits.{name}": int(from_1.loc[from_1["rounding"] == name, "at_limit"].sum()) for name in ROUNDINGS}
    as_theirs = tail[tail["rounding"] == "lognormal_rounded"]
    up = from_1[from_1["rounding"] == "lognormal_ceiling"].sort_values("size")
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
            "mu_off": (as_theirs["mu"] - as_theirs["mu_published"]).abs().max(),
            "sigma_off.lognormal_rounded": (as_theirs["sigma"] - as_theirs["sigma_published"]).abs().max(),
        }
        | falls_of_ratio(rounded)
    )


def curves_summary(table: pd.DataFrame, alphas: pd.DataFrame) -> dict[str, Any]:
    """Summarise `collect_predictions` and its `exponents`."""
    ours, seen = (alphas[alphas["kind"] == kind].iloc[0] for kind in (FORMULA, MEASURED))
    ratios = compare_levels(table).query("kind == @FORMULA")
    first = ratios[ratios["metric"] == "neg_log_rbp1"]
    values = {"level_min": ratios["least"].min(), "level_max": ratios["largest"].max()}
    values |= {"level_max.rbp1": first["largest"].item()}
    for row in (ours, seen):
        values |= {f"{name}.{row['kind']}": row[name] for name in ("difference_relative", "alpha_ce", "alpha_p1")}
    way = "the other way" if ours["difference"] * seen["difference"] < 0 else "the same way"
    return values | {"formula.alike": bool(ours["low"] <= 0 <= ours["high"]), "formula.other_way": way}


def lines_summary(group: Sequence[MeasuredRanks], lines: pd.DataFrame) -> dict[str, Any]:
    """Summarise `exponents_on_lines`, if there is a family of three models; the `main_group` names the keys."""
    if lines.empty:
        return {}
    here = lines[(lines["family"] == group[0].family) & (lines["dataset"] == group[0].dataset) & lines["both"]]
    return {
        "both_names": listed((FAMILIES[name].label for name in here["distribution"]), joint="; "),
        "groups": int(lines.groupby(CELL).ngroups),
    } | {
        f"both_in.{name}": int(lines["both"][lines["distribution"] == name].sum())
        for name in ("lognormal", "power_law")
    }


def reproduced_to(table: pd.DataFrame) -> float:
    """Return the largest relative distance of the formula's predictions from the published ones."""
    wide = table.pivot_table(index=["model", "metric"], columns="kind", values="value")
    return float((wide[FORMULA] / wide[PUBLISHED] - 1).abs().max())


def of_models(group: Sequence[MeasuredRanks], table: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of a group of models on one dataset, by size."""
    rows = table[(table["family"] == group[0].family) & (table["dataset"] == group[0].dataset)]
    return rows.sort_values("size")


# Tables


def roundings_table(rounded: pd.DataFrame, *, caption: str) -> dict[str, Any]:
    """Show `list_roundings`, for `Page.table`."""
    rows = rounded.assign(
        rounding=rounded["rounding"].map(ROUNDINGS),
        ranks=rounded["first"].map({1: "all", 2: "from 2"}),
        best=np.where(rounded["at_limit"], "none", "yes"),
    )
    return shown(
        rows,
        {
            "rounding": "X made whole",
            "best": "best lognormal",
            "ranks": "ranks",
            "model": "model",
            "mu": ("μ", "{:.2f}"),
            "sigma": ("σ", "{:.2f}"),
            "sigma_published": ("authors’ σ", "{:.2f}"),
            "excess": ("excess, nats a token", "{:.4f}"),
            "deviance": ("deviance", "{:,.0f}"),
            "df": "df",
        },
        caption=caption,
        data=rounded,
    )


# Figures


def survival_figure(table: pd.DataFrame, group: Sequence[MeasuredRanks]) -> dict[str, Any]:
    """Plot P(R > k) against k, measured (at the bins' ends) and fitted, of `main_group`'s smallest and largest model.

    Drawn are the likeliest family from rank 1 and the lognormal from 1 and from 2. Distributions that begin at rank 2
    are drawn as shares of the tokens with rank 2 or more, times that share.
    """
    best = str(_means(of_group(table, group, 1)).index[0])
    looks = dict.fromkeys([(best, 1), ("lognormal", 1), ("lognormal", 2)])
    pair = group[0], group[-1]
    extremes = {f"{model_label(ranks.model)} on {dataset_label(ranks.dataset)}": ranks for ranks in pair}

    def draw(ax: Axes, key: str) -> None:
        ranks = extremes[key]
        counts = ranks.counts
        beyond = 1 - np.cumsum(counts.count) / counts.total
        positive = beyond > 0
        grid = np.unique(np.round(np.geomspace(1, counts.vocabulary - 1, 300)))
        for (name, first), colour, dash in zip(
            looks, ("#9457C0", "#C2447A", "#5C8A2E"), ("-", "--", ":"), strict=False
        ):
            row = row_of(table, ranks, name, first)
            notes = ["from 2"] if first == 2 else []
            notes += [f"at its limit: {family(row['found']).label}"] if row["at_limit"] else []
            label = FAMILIES[name].label + (f" ({', '.join(notes)})" if notes else "")
            thresholds = grid[grid >= first - 1]
            share = counts.since(first).total / counts.total
            ax.plot(thresholds, share * distribution_of(row).sf(thresholds), ls=dash, color=colour, lw=1.7, label=label)
        ax.plot(counts.high[positive], beyond[positive], "o", color=INK, ms=3.2, mew=0, label="measured", zorder=3)
        ax.set_ylim(beyond[positive].min() / 2, 1)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set_xlabel("rank k")
        ax.set_ylabel("share of ranks above k")
        ax.set_title(key)
        legend_below(ax)

    counts = [
        pd.DataFrame({"case": name, "high": ranks.counts.high, "count": ranks.counts.count})
        for name, ranks in extremes.items()
    ]
    return {
        "figure": Panels(list(extremes), draw, size=(4.6, 3.6)),
        "alt": "Survival functions of ranks on logarithmic axes, measured points and fitted lines",
        "data": pd.concat(counts),
    }
