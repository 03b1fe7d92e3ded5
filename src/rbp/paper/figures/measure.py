"""Figures about which measurements there are, and the tokens behind them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rbp.book.figure_style import INK, Panels, family_style, legend_below, log_axis, single_panel
from rbp.paper.curves import curves
from rbp.paper.wording import dataset_label, dataset_order

_FULL, _PART = "#2A7FC0", "#9DC3E6"
_ENTROPY = "CE"


def coverage(table: pd.DataFrame) -> pd.DataFrame:
    """How many models were measured: dataset, family, k (missing for the cross-entropy, which comes last), models, of.

    `table` is a measurement table; `of` is how many models of the family it holds anywhere.
    """
    counted = table.groupby(["dataset", "family", "k"], dropna=False)["model"].nunique().rename("models").reset_index()
    return counted.assign(of=counted["family"].map(table.groupby("family")["model"].nunique()))


def coverage_panels(counted: pd.DataFrame) -> Panels:
    """A grid of family by threshold for each dataset, with the number of models in each square (`coverage`).

    Dark squares hold all models of the family, light ones some; a missing square holds none.
    """
    numbers = sorted(counted["k"].dropna().unique().tolist())
    columns = [str(number) for number in numbers] + [_ENTROPY] * bool(counted["k"].isna().any())
    families = sorted(counted["family"].unique())

    def draw(ax: Axes, dataset: str) -> None:
        own = counted[counted["dataset"] == dataset]
        for k, family, models, of in own[["k", "family", "models", "of"]].itertuples(index=False, name=None):
            x, y = len(numbers) if pd.isna(k) else numbers.index(k), families.index(family)
            full = models == of
            colour = _FULL if full else _PART
            ax.add_patch(Rectangle((x - 0.45, y - 0.43), 0.9, 0.86, facecolor=colour, edgecolor="none"))
            ink = "white" if full else "black"
            ax.text(x, y, str(models), ha="center", va="center", color=ink)
        ax.set_xlim(-0.6, len(columns) - 0.4)
        ax.set_ylim(len(families) - 0.4, -0.6)
        ax.set_xticks(range(len(columns)), columns, rotation=90)
        ax.set_yticks(range(len(families)), families)
        ax.tick_params(length=0)
        ax.grid(False)
        ax.set_xlabel("threshold k; CE: cross-entropy")
        ax.set_title(dataset_label(dataset))
        sns.despine(ax=ax, left=True, bottom=True)

    return Panels(dataset_order(counted["dataset"]), draw, size=(4.6, 0.33 * len(families) + 1.5))


def coverage_shown(table: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for `coverage_panels` of a measurement table."""
    counted = coverage(table)
    return {
        "figure": coverage_panels(counted),
        "caption": "<b>How many models were measured</b>, by family and threshold k. Dark: all of the family; "
        "light: some; empty: none.",
        "alt": "Grids of families by thresholds, one for each dataset, with the number of models in each square",
        "data": counted,
    }


def tokens_shown(recovered: pd.DataFrame, stated: int) -> dict[str, Any]:
    """What `Page.figure` takes for `tokens_figure`."""
    return {
        "figure": tokens_figure(recovered, stated),
        "caption": "<b>The number of tokens behind each point</b>, counted or recovered (filled), or likely (hollow).",
        "alt": "Number of tokens by dataset and family: some 25 thousand on HotpotQA, 30 to 42 thousand on HumanEval, "
        "320 thousand on Wikipedia, just below 500 thousand on the Australian legal corpus",
        "data": recovered,
    }


def tokens_figure(behind: pd.DataFrame, stated: int) -> Figure:
    """The number of tokens behind the points of each dataset and family, beside the number `stated`.

    `behind` has dataset, family, tokens and basis; hollow markers are "likely", not identified.
    """
    datasets, families = dataset_order(behind["dataset"]), sorted(set(behind["family"]))

    def draw(ax: Axes) -> None:
        ax.axvline(stated, color=INK, lw=1.2, ls=(0, (5, 3)))
        ax.annotate(
            f"the paper: at least {stated:,}", (stated, 1), (-5, 4), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="right",
        )  # fmt: skip
        for place, family in enumerate(families):
            colour, marker = family_style(family, families)
            own = behind[behind["family"] == family]
            y = own["dataset"].map(datasets.index).to_numpy(float) + 0.17 * (place - (len(families) - 1) / 2)
            likely = (own["basis"] == "likely").to_numpy()
            for chosen, face in ((~likely, colour), (likely, "none")):
                x = own["tokens"].to_numpy(float)[chosen]
                label = family if face == colour else None
                ax.plot(x, y[chosen], marker, color=colour, mfc=face, ms=7, mew=1.4, label=label)
        ax.set_yticks(range(len(datasets)), [dataset_label(name) for name in datasets])
        ax.set_ylim(len(datasets) - 0.4, -0.6)
        ax.set_xlim(behind["tokens"].min() / 1.5, max(stated, behind["tokens"].max()) * 1.5)
        log_axis(ax, "x", plain=False)
        ax.xaxis.set_major_locator(ticker.LogLocator(base=10, subs=(1, 5)))
        ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.set_xlabel("tokens behind a point")
        legend_below(ax)
        sns.despine(ax=ax)

    return single_panel(draw, size=(4.6, 3.6))


def fraction_panels(share: npt.ArrayLike, totals: Mapping[str, int]) -> Panels:
    """Where the products of `share` with a total fall between two whole numbers: a histogram for each total.

    `totals` maps a panel's title to the total. For the right one the products lie on whole numbers.
    """
    part = np.asarray(share, dtype=np.float64)

    def draw(ax: Axes, title: str) -> None:
        product = part * totals[title]
        ax.hist(product - np.rint(product), bins=np.linspace(-0.5, 0.5, 26).tolist(), color=_FULL)
        ax.set_xlim(-0.5, 0.5)
        ax.set_xlabel("distance to the nearest whole number")
        ax.set_ylabel("readings")
        ax.set_title(title)
        sns.despine(ax=ax)

    return Panels(list(totals), draw, size=(4.4, 2.8))


def whole_numbers_shown(share: npt.ArrayLike, name: str, tokens: int) -> dict[str, Any]:
    """What `Page.figure` takes for `fraction_panels` of a cell's shares: its number of tokens, and another."""
    part = np.asarray(share, dtype=np.float64)
    totals = {f"times {n:,}": n for n in (tokens, tokens + 100)}
    return {
        "figure": fraction_panels(part, totals),
        "caption": f"<b>One number of tokens fits, another does not.</b> {part.size} readings for {name}, "
        "times N: how far from whole numbers.",
        "alt": "Two histograms: all distances near zero for the right number of tokens, spread over all distances for "
        "another number",
        "data": pd.DataFrame({"share": part} | {title: part * n - np.rint(part * n) for title, n in totals.items()}),
    }


def sampling_shown(points: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for `sampling_panels`."""
    return {
        "figure": sampling_panels(points),
        "caption": "<b>What sampling does to the points.</b> The relative standard error of −ln RBPₖ, by "
        "counting: the median over the models of a family.",
        "alt": "Relative error against k, one panel per dataset, one line per family",
        "data": points,
    }


def sampling_panels(points: pd.DataFrame) -> Panels:
    """The relative error of −ln RBP_k that counting independent tokens gives, against k.

    `points` has dataset, family, k and relative_se: lines join its median over the models of a family.
    """
    rows = points.groupby(["dataset", "family", "k"])["relative_se"].median().mul(100).reset_index()
    labels = ("threshold k", "relative error (per cent)")
    return curves(rows, "k", "relative_se", labels=labels, line="family", log="xy", ylim="shared", size=(4.6, 3.8))
