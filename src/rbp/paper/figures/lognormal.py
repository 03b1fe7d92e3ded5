"""Figures on appendix C, on the curves that it predicts, and on distributions of ranks."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbp.book.figure_style import (
    INK,
    LABELS,
    Panels,
    Style,
    family_style,
    label_line_ends,
    legend_below,
    log_axis,
    single_panel,
)
from rbp.evidence.histograms import MeasuredRanks
from rbp.paper import predicted_curves, rank_distributions
from rbp.paper.curves import curves, in_cells, melted
from rbp.paper.wording import dataset_label, model_label
from rbp.stats.rank_families import FAMILIES
from rbp.stats.rank_fits import RankDistribution

_TERMS = {
    "square": ("μ²/(2σ²)", Style("#B8579A", "D")),
    "log_scale": ("ln(√(2π) σ)", Style("#009E73", "^")),
    "log_c": ("ln c", Style("#2A7FC0", "o")),
    "neg_log_p1": ("their sum, −ln p₁", Style(INK, "s", "-", 2.4)),
    "entropy": ("−Σ p ln p", Style("#D55E00", "v")),
}
_COLOURS = ("#2A7FC0", "#D55E00", "#009E73", "#B8579A")
_TWO = {"neg_log_p1": ("−ln p₁", "#2A7FC0", "o"), "entropy": ("−Σ p ln p", "#D55E00", "v")}


def terms_figure(terms: pd.DataFrame) -> Panels:
    """The terms of equation 16, their sum, and the entropy, against S: a table of `numbers.equation_terms`."""
    names = {column: name for column, (name, _) in _TERMS.items()}
    return curves(
        melted(terms, names, "size"), "size", "value", labels=(LABELS["size"], "nats"), panel=None,
        styles=dict(_TERMS.values()), ends=True, at=[0], size=(7.2, 4.6),
    )  # fmt: skip


def path_panels(paths: Mapping[str, pd.DataFrame], points: pd.DataFrame) -> Panels:
    """−ln p₁ and the entropy along each extrapolation (tables of `numbers.along_path`), with the fitted points."""
    low = 0.8 * min(curve["neg_log_p1"].min() for curve in paths.values())
    high = 1.2 * max(curve["entropy"].max() for curve in paths.values())

    def draw(ax: Axes, key: str) -> None:
        curve, ends = paths[key], {}
        ax.axvspan(points["size"].min(), points["size"].max(), color="#8a8d91", alpha=0.2, lw=0)
        for column, (name, colour, marker) in _TWO.items():
            ax.plot(curve["size"], curve[column], color=colour)
            ax.plot(points["size"], points[column], marker, color=colour, ms=5, mew=0)
            ends[name] = (curve["size"].iloc[-1], curve[column].iloc[-1], colour)
        ax.set_xlim(curve["size"].min(), curve["size"].max())
        ax.set_ylim(low, high)
        log_axis(ax, "x", plain=False)
        log_axis(ax, "y")
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("nats")
        ax.set_title(key)
        sns.despine(ax=ax)
        label_line_ends(ax, ends)

    return Panels(list(paths), draw, size=(4.6, 3.9))


def predicted_panels(table: pd.DataFrame) -> Panels:
    """Measured and computed curves against S, a panel for each metric: a table of `predicted_curves.both_metrics`."""
    kinds = [kind for kind in predicted_curves.KINDS if kind != predicted_curves.PUBLISHED]  # which the formula gives
    names = {"cross_entropy": "Cross-entropy and entropies of ranks", "neg_log_rbp1": "−ln RBP₁ and −ln p₁"}
    looks = [(INK, "o", "-"), *((_COLOURS[i % 4], marker, "--") for i, marker in enumerate("Ds^vPX"))]
    return curves(
        table[table["kind"].isin(kinds)].replace({"metric": names}), "size", "value", labels=(LABELS["size"], "nats"),
        panel="metric", line="kind", styles=dict(zip(kinds, looks, strict=False)), log="xy", size=(4.6, 5.0),
    )  # fmt: skip


def entropy_panels(table: pd.DataFrame) -> Panels:
    """Cross-entropy, the entropy of ranks and the lognormal's against S, a panel for each dataset and family.

    `table` is one of `premise.entropies`. The names stand at the lines' ends, those of a panel's own lines only.
    """
    looks = {
        "cross_entropy": ("cross-entropy", Style(INK, "", "-", 2.4)),
        "rank_entropy": ("ranks", Style("#2A7FC0", "", "-", 2.4)),
        "lognormal": ("lognormal", Style("#009E73", "", "--")),
        "exact": ("authors’ μ, σ", Style("#D55E00", "", "--")),
        "formula": ("their formula", Style("#B8579A", "", ":")),
    }
    largest_first = list(dict.fromkeys(table.sort_values("size", ascending=False)["family"]))
    cells = in_cells(table)
    cells = cells.sort_values("family", key=lambda names: names.map(largest_first.index), kind="stable")
    return curves(
        melted(cells, {column: name for column, (name, _) in looks.items()}, "size", by=["cell"]), "size", "value",
        labels=(LABELS["size"], "nats"), panel="cell", styles=dict(looks.values()),
        ends=True, size=(4.6, 3.9),
    )  # fmt: skip


def split_panels(table: pd.DataFrame) -> Panels:
    """The parts of the gap between entropy of ranks and cross-entropy against S, by dataset: the step `premise`."""
    parts = {
        "gap": ("H(π) − CE", Style(INK, "o", "-", 2.2)),
        "mixing": ("mixing", Style("#2A7FC0", "D")),
        "profile": ("profile", Style("#009E73", "^")),
        "minus_confidence": ("− confidence", Style("#D55E00", "s")),
    }
    names = {column: name for column, (name, _) in parts.items()}
    rows = melted(
        table.assign(minus_confidence=-table["confidence"]), names, "size", by=["dataset", "confidence_error"]
    )
    error = rows["confidence_error"].where(rows["line"] == names["minus_confidence"])
    return curves(
        rows.assign(low=rows["value"] - error, high=rows["value"] + error), "size", "value", at=[0], ylim="shared",
        labels=(LABELS["size"], "nats"), styles=dict(parts.values()), size=(4.6, 4.2),
    )  # fmt: skip


COLOURS = ("#2A7FC0", "#D55E00", "#009E73", "#B8579A", "#8A7A00")
_LINES = tuple(zip(COLOURS, ("-", "--", "-.", ":", "-"), strict=True))
DATASET_STYLES = {
    "wikipedia": ("#2A7FC0", "o"),
    "humaneval": ("#D55E00", "s"),
    "hotpotqa": ("#009E73", "^"),
    "auslegal": ("#B8579A", "D"),
}


def gap_panels(fits: pd.DataFrame) -> Panels:
    """How many nats per token each fit lies below the best of its model, for each first rank: a table of `fits`.

    A row for each distribution, the likeliest from rank 1 first; for each family of models the median over its models
    and data sets and a line from the least to the most, hollow where the distribution is at its limit for any.
    """
    table, order = rank_distributions.plain(fits), rank_distributions.best(fits[fits["first"] == 1], len(FAMILIES))
    families = sorted(table["family"].unique())
    low = table.groupby(["dataset", "model", "first"])["per_token"].transform("max") - table["per_token"]
    shown = table.assign(gap=np.maximum(low, 1e-5))

    def draw(ax: Axes, first: int) -> None:
        own = shown[shown["first"] == first]
        names = [name for name in order if (own["distribution"] == name).any()]
        for place, family in enumerate(families):
            colour, marker = family_style(family, families)
            some = own[(own["family"] == family) & own["distribution"].isin(names)].groupby("distribution")
            found = some.agg(low=("gap", "min"), gap=("gap", "median"), high=("gap", "max"), limit=("at_limit", "any"))
            heights = found.index.map(names.index) + 0.22 * (place - (len(families) - 1) / 2)
            ax.hlines(heights, found["low"], found["high"], color=colour, lw=2)
            for limit, face in ((False, colour), (True, "none")):
                at = (found["limit"] == limit).to_numpy()
                label = family if not limit else None
                ax.plot(found["gap"][at], heights[at], marker, color=colour, mfc=face, ms=6, label=label, zorder=3)
        ax.set_yticks(range(len(names)), [textwrap.fill(FAMILIES[name].label, 16) for name in names])
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlim(0.8e-5, 1.5 * shown["gap"].max())
        log_axis(ax, "x")
        ax.set_xlabel("nats per token below the best")
        ax.set_title(f"Ranks from {first}")
        legend_below(ax)
        sns.despine(ax=ax)

    return Panels(sorted(table["first"].unique()), draw, size=(4.6, 4.8))


Cases = Mapping[str, tuple[MeasuredRanks, Mapping[str, RankDistribution]]]
"""What a panel of ranks is called, the ranks, and the fitted distributions by name."""


def case_name(own: MeasuredRanks) -> str:
    """ "pythia-14m on Wikipedia"."""
    return f"{model_label(own.model)} on {dataset_label(own.dataset)}"


def cases(models: Iterable[MeasuredRanks], fits: pd.DataFrame, names: Sequence[str]) -> Cases:
    """The models with their fits of the families `names` from rank 1, and of the lognormal from rank 2."""
    found = {}
    for own in models:
        rows = [rank_distributions.row_of(fits, own, name) for name in names]
        rows.append(rank_distributions.row_of(fits, own, "lognormal", 2))
        drawn = {rank_distributions.fit_label(row): rank_distributions.distribution_of(row) for row in rows}
        found[case_name(own)] = (own, drawn)
    return found


def counts_of(drawn: Cases) -> pd.DataFrame:
    """What was measured: columns case, high (the end of a bin), count."""
    parts = [
        pd.DataFrame({"case": n, "high": own.counts.high, "count": own.counts.count}) for n, (own, _) in drawn.items()
    ]
    return pd.concat(parts)


def survival_panels(cases: Cases) -> Panels:
    """P(R > k) against k on logarithmic axes: measured (at the bins' ends), and the fitted distributions by name.

    Distributions that begin at rank 2 are drawn as shares of the tokens with rank 2 or more, times that share.
    """

    def draw(ax: Axes, key: str) -> None:
        own, fitted = cases[key]
        counts = own.counts
        beyond = 1 - np.cumsum(counts.count) / counts.total
        some = beyond > 0
        grid = np.unique(np.round(np.geomspace(1, counts.vocabulary - 1, 300)))
        for (name, distribution), (colour, style) in zip(fitted.items(), _LINES, strict=False):
            share = counts.since(distribution.first).total / counts.total
            at = grid[grid >= distribution.first - 1]
            ax.plot(at, share * distribution.sf(at), ls=style, color=colour, lw=1.5, label=name)
        ax.plot(counts.high[some], beyond[some], "o", color=INK, ms=3.2, mew=0, label="measured", zorder=3)
        ax.set_ylim(beyond[some].min() / 2, 1)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set_xlabel("rank k")
        ax.set_ylabel("share of tokens with a rank above k")
        ax.set_title(key)
        ax.legend(loc="lower left")
        sns.despine(ax=ax)

    return Panels(list(cases), draw, size=(4.6, 4.0))


def profile_figure(grid: pd.DataFrame, marks: Mapping[str, tuple[float, float]]) -> Figure:
    """The log-likelihood of a lognormal over μ and σ, as a drop per 1000 tokens; `marks` names points (mu, sigma).

    `grid` is a table of `rank_distributions.profile`.
    """

    def draw(ax: Axes) -> None:
        wide = grid.pivot_table(index="sigma", columns="mu", values="per_thousand")
        levels = [-30, -10, -3, -1]
        lines = ax.contour(
            wide.columns, wide.index, wide.to_numpy(), levels, colors="#2A7FC0", linewidths=1.2, linestyles="solid"
        )
        ax.clabel(lines, fmt=lambda value: f"{value:g}".replace("-", "−"))
        for (name, (mu, sigma)), marker in zip(marks.items(), "oD^s", strict=False):
            ax.plot(mu, sigma, marker, color="#D55E00", ms=7, zorder=3)
            ax.annotate(name, (mu, sigma), (8, 6), textcoords="offset points", color="#D55E00")
        ax.set_xlabel("μ")
        ax.set_ylabel("σ")
        sns.despine(ax=ax)

    return single_panel(draw, size=(6.4, 4.4))


def parameter_panels(table: pd.DataFrame) -> Panels:
    """Fitted parameters against S: columns family, dataset, size, tau (ranks from 1); mu, sigma, ratio (from 2)."""
    names = {
        "tau": "curvature, ranks from 1 (1/σ² if above 0)",
        "curvature": "1/σ², ranks from 2",
        "lam": "λ = −μ/σ², ranks from 2",
        "ratio": "μ/σ, ranks from 2",
    }
    table = table.assign(curvature=1 / table["sigma"] ** 2, lam=-table["mu"] / table["sigma"] ** 2)
    rows = melted(in_cells(table), names, "size", by=["cell", "family", "dataset"]).rename(columns={"line": "of"})
    cells = rows[["cell", "dataset"]].drop_duplicates().itertuples(index=False, name=None)
    return curves(
        rows.assign(hollow=rows["family"] != "Pythia"), "size", "value", labels=(LABELS["size"], ""), panel="of",
        line="cell", styles={cell: DATASET_STYLES.get(dataset, (INK, "v")) for cell, dataset in cells}, at=[0],
        size=(4.6, 4.4),
    )  # fmt: skip
