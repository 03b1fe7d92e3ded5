"""Figures on distributions of ranks: fits beside the data, how far they are, and what the data cannot tell."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbp.figures.style import INK, LABELS, Panels, family_style, log_axis, one
from rbp.measured_ranks import MeasuredRanks
from rbp.names import dataset_label, model_label
from rbp.rank_distributions import FAMILIES, RankDistribution

COLOURS = ("#2A7FC0", "#D55E00", "#009E73", "#B8579A", "#8A7A00")
_LINES = tuple(zip(COLOURS, ("-", "--", "-.", ":", "-"), strict=True))
DATASET_STYLES = {
    "wikipedia": ("#2A7FC0", "o"),
    "humaneval": ("#D55E00", "s"),
    "hotpotqa": ("#009E73", "^"),
    "auslegal": ("#B8579A", "D"),
}


def gap_panels(table: pd.DataFrame, order: Sequence[str]) -> Panels:
    """How many nats per token each fit lies below the best of its model, for each first rank: rows of `rank_fits.fits`.

    A row for each distribution of `order`, a marker for each model, in its family's colour; open at a limit.
    """
    families = sorted(table["family"].unique())
    low = table.groupby(["dataset", "model", "first"])["per_token"].transform("max") - table["per_token"]
    shown = table.assign(gap=np.maximum(low, 1e-5))

    def draw(ax: Axes, first: int) -> None:
        own = shown[shown["first"] == first]
        names = [name for name in order if (own["distribution"] == name).any()]
        for place, family in enumerate(families):
            colour, marker = family_style(family, families)
            some = own[(own["family"] == family) & own["distribution"].isin(names)]
            shift = 0.18 * (place - (len(families) - 1) / 2)
            heights = some["distribution"].map(names.index) + shift
            inner = ~some["at_limit"]
            ax.plot(some["gap"][inner], heights[inner], marker, color=colour, ms=5, mew=0, alpha=0.7, label=family)
            ax.plot(some["gap"][~inner], heights[~inner], marker, color=colour, ms=5, mfc="none")
        ax.set_yticks(range(len(names)), [FAMILIES[name].label for name in names])
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlim(0.8e-5, 1.5 * shown["gap"].max())
        log_axis(ax, "x")
        ax.set_xlabel("nats per token below the best fit")
        ax.set_title(f"Ranks from {first}")
        ax.legend(loc="upper center", bbox_to_anchor=(0.3, -0.16), ncols=len(families))
        sns.despine(ax=ax)

    return Panels(sorted(table["first"].unique()), draw, size=(5.6, 4.2))


def survival_panels(cases: Mapping[str, tuple[MeasuredRanks, Mapping[str, RankDistribution]]]) -> Panels:
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

    return Panels(list(cases), draw, size=(4.9, 4.0))


def quantile_panels(cases: Mapping[str, tuple[MeasuredRanks, Mapping[str, RankDistribution]]]) -> Panels:
    """Q–Q: the ratio of fitted to measured rank at the same share of tokens, at the measured bins' ends.

    Only for distributions that begin at rank 1, and ranks from 5: before that a step of one rank is coarse.
    """

    def draw(ax: Axes, key: str) -> None:
        own, fitted = cases[key]
        share = np.cumsum(own.counts.count) / own.counts.total
        some = (share < 1 - 1e-9) & (own.counts.high >= 5)
        ax.axhline(1, color=INK, lw=1)
        for (name, distribution), (colour, style) in zip(fitted.items(), _LINES, strict=False):
            if distribution.first == 1:
                ratio = distribution.quantile(share[some]) / own.counts.high[some]
                ax.plot(own.counts.high[some], ratio, ls=style, color=colour, lw=1.4, label=name)
        ax.set_ylim(0.3, 3)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set_xlabel("measured rank")
        ax.set_ylabel("fitted rank / measured rank")
        ax.set_title(key)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))
        sns.despine(ax=ax)

    return Panels(list(cases), draw, size=(4.9, 4.4))


def profile_figure(grid: pd.DataFrame, marks: Mapping[str, tuple[float, float]]) -> Figure:
    """The log-likelihood of a lognormal over μ and σ, as a drop per 1000 tokens; `marks` names points (mu, sigma).

    `grid` is a table of `rank_fits.profile` with a column `per_thousand`.
    """

    def draw(ax: Axes) -> None:
        wide = grid.pivot_table(index="sigma", columns="mu", values="per_thousand")
        levels = [-30, -10, -3, -1]
        lines = ax.contour(
            wide.columns, wide.index, wide.to_numpy(), levels, colors="#2A7FC0", linewidths=1.2, linestyles="solid"
        )
        ax.clabel(lines, fmt=lambda value: f"{value:g}".replace("-", "−"), fontsize=8.5)
        for (name, (mu, sigma)), marker in zip(marks.items(), "oD^s", strict=False):
            ax.plot(mu, sigma, marker, color="#D55E00", ms=7, zorder=3)
            ax.annotate(name, (mu, sigma), (8, 6), textcoords="offset points", color="#D55E00", fontsize=9.5)
        ax.set_xlabel("μ")
        ax.set_ylabel("σ")
        sns.despine(ax=ax)

    return one(draw, size=(6.4, 4.4))


def parameter_panels(table: pd.DataFrame, columns: Mapping[str, str]) -> Panels:
    """Fitted parameters against S, a panel for each of `columns` (column → axis label): family, dataset, size, …"""
    cells = table[["family", "dataset"]].drop_duplicates().itertuples(index=False, name=None)
    styles = {cell: DATASET_STYLES.get(cell[1], (INK, "v")) for cell in cells}

    def draw(ax: Axes, column: str) -> None:
        ax.axhline(0, color=INK, lw=0.8)
        for (family, dataset), (colour, marker) in styles.items():
            own = table[(table["family"] == family) & (table["dataset"] == dataset)].sort_values("size")
            face = colour if family == "Pythia" else "none"
            name = f"{family}, {dataset_label(dataset)}"
            ax.plot(own["size"], own[column], marker, ls="-", color=colour, mfc=face, lw=1.2, ms=5.5, label=name)
        log_axis(ax, "x", plain=False)
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel(columns[column])
        ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.17), ncols=2)
        sns.despine(ax=ax)

    return Panels(list(columns), draw, size=(5.0, 4.4))


def case_name(own: MeasuredRanks) -> str:
    """ "pythia-14m on Wikipedia"."""
    return f"{model_label(own.model)} on {dataset_label(own.dataset)}"
