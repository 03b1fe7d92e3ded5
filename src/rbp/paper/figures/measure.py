"""Figures about the metric, about which measurements there are, and Table 1 as a picture."""

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

from rbp.book.figure_style import (
    FAINT,
    INK,
    LABELS,
    Panels,
    family_style,
    legend_below,
    log_axis,
    rbp_label,
    single_panel,
)
from rbp.paper import toy_models
from rbp.paper.curves import curves
from rbp.paper.wording import dataset_label, dataset_order

#: the truth, and all other tokens
TRUTH, OTHER = "#D55E00", "#8A97A6"
#: lines that are no families: one colour and dash each
LINES = (("#2A7FC0", "o", "-"), ("#D55E00", "o", "--"), ("#009E73", "o", "-."), ("#B8579A", "o", ":"))


def distributions(tokens: pd.DataFrame, *, k: int | None = None) -> Panels:
    """Bars of probability, the most probable first: one panel for each `panel`.

    `tokens` has panel, token, probability, truth (whether it is the ground truth). The truth is coloured and its rank
    written beside it. With `k`, a line closes the top k.
    """

    def draw(ax: Axes, panel: str) -> None:
        own = tokens[tokens["panel"] == panel].sort_values("probability", ascending=False, kind="stable")
        place = np.arange(1, len(own) + 1)
        colours = [TRUTH if truth else OTHER for truth in own["truth"]]
        ax.barh(place, own["probability"], color=colours, height=0.7)
        for y, width, truth in zip(place, own["probability"], own["truth"], strict=True):
            note = f"{width:.2f}" + (f"  truth, rank {y}" if truth else "")
            weight = "bold" if truth else "normal"
            ax.annotate(note, (width, y), (4, 0), textcoords="offset points", va="center", fontweight=weight)
        ax.set_yticks(place, [str(token) for token in own["token"]])
        ax.set_ylim(len(own) + 0.6, 0.4)
        ax.set_xlim(0, tokens["probability"].max() * 1.75)
        if k is not None and k < len(own):
            ax.axhline(k + 0.5, color=INK, lw=1, ls=(0, (4, 3)))
            ax.annotate(
                f"top {k}", (1, k + 0.5), (0, 3), xycoords=("axes fraction", "data"), textcoords="offset points",
                ha="right", va="bottom",
            )  # fmt: skip
        ax.grid(False, axis="y")
        ax.set_xlabel("probability")
        ax.set_title(panel)
        sns.despine(ax=ax, left=True)
        ax.tick_params(axis="y", length=0)

    panels = list(dict.fromkeys(tokens["panel"]))
    return Panels(panels, draw, size=(3.6, 2.7), columns=len(panels))


def figure_1_shown() -> dict[str, Any]:
    """What `Page.figure` takes for the paper's figure 1, redrawn."""
    tokens = toy_models.bars(toy_models.FIGURE_1, toy_models.CITIES)
    return {
        "figure": distributions(tokens),
        "caption": "<b>The same probability, two ranks</b> (figure 1 of the paper, redrawn; the other probabilities "
        "are ours). Both cost −ln 0.28 nats.",
        "alt": "Bars of five probabilities, twice; the truth has probability 0.28 in both, first rank 3, then rank 1",
        "data": tokens,
    }


def figure_2_shown() -> dict[str, Any]:
    """What `Page.figure` takes for the paper's figure 2, redrawn."""
    tokens = toy_models.bars(toy_models.FIGURE_2, ["truth", *(f"other {i}" for i in (1, 2, 3, 4))])
    return {
        "figure": distributions(tokens, k=2),
        "caption": "<b>Three tokens of a text</b> (figure 2 of the paper, redrawn). Above the dashed line: the top "
        "two.",
        "alt": "Bars of five probabilities for three tokens; the truth has ranks 3, 1 and 3",
        "data": tokens,
    }


def same_cross_entropy_shown(table: pd.DataFrame, tokens: int) -> dict[str, Any]:
    """What `Page.figure` takes for RBP_k of models with one cross-entropy: columns line, k, rbp; of so many tokens."""
    styles, labels = dict(zip(table["line"].unique(), LINES, strict=False)), ("threshold k", rbp_label())
    return {
        "figure": curves(table, "k", "rbp", labels=labels, panel=None, styles=styles, ends=True, size=(4.6, 3.4)),
        "caption": f"<b>One cross-entropy, two curves.</b> {tokens} truths, with probabilities drawn evenly between "
        "0.02 and 0.98: ranked as high as these allow, and as low.",
        "alt": "RBP against k: a line at 1 for the even model, a rising line below it for the crowded model",
        "data": table,
    }


def same_rbp_shown(table: pd.DataFrame) -> dict[str, Any]:
    """What `Page.figure` takes for RBP_k and cross-entropy by temperature: columns line, T, rbp, cross_entropy."""
    styles, labels = dict(zip(table["line"].unique(), LINES, strict=False)), ("temperature T", "")
    names = {"rbp": rbp_label(), "cross_entropy": LABELS["cross_entropy"]}
    rows = table.melt(["T", "line"], list(names), "of").replace({"of": names})
    return {
        "figure": curves(rows, "T", "value", labels=labels, panel="of", styles=styles, ends=True, size=(4.6, 3.4)),
        "caption": "<b>One order, many cross-entropies.</b> A made-up model at several temperatures.",
        "alt": "Left: RBP is constant in the temperature. Right: cross-entropy has a minimum near temperature 1",
        "data": table,
    }


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


FILLS = {"agrees": "#1F6FB0", "differs": "#B34700"}  # dark enough for white numbers
LOW = "#D55E00"


def metric_label(metric: str, k: int | None) -> str:
    """The row's name: "CE", or the threshold k."""
    return "CE" if metric == "cross_entropy" else f"{k}"


def cell_panels(cells: pd.DataFrame) -> Panels:
    """The printed R² of every cell, by dataset: filled where recomputed, open where no points were published.

    `cells` is a table of `against_print.recompute`. An R² below 0.9 in an open cell is set in colour.
    """

    def draw(ax: Axes, dataset: str) -> None:
        own = cells[cells["dataset"] == dataset]
        rows = [metric_label(metric, k) for metric, k in own[["metric", "k"]].drop_duplicates().itertuples(index=False)]
        families = list(dict.fromkeys(own["family"]))
        for cell in own.to_dict("records"):
            x, y = families.index(cell["family"]), rows.index(metric_label(cell["metric"], cell["k"]))
            fill = FILLS.get(cell["verdict"])
            box = Rectangle((x - 0.46, y - 0.42), 0.92, 0.84, fc=fill or "none", ec=fill or FAINT, lw=1)
            ax.add_patch(box)
            is_low = cell["printed_r_squared"] < 0.9
            colour = "#FFFFFF" if fill else LOW if is_low else INK
            text = f"{cell['printed_r_squared']:.3f}"
            ax.text(x, y, text, ha="center", va="center", color=colour, weight="bold" if is_low else None)
        ax.set_xlim(-0.5, len(families) - 0.5)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.set_xticks(range(len(families)), families)
        ax.set_yticks(range(len(rows)), rows)
        ax.set_ylabel("k, or cross-entropy")
        ax.set_title(dataset_label(dataset))
        ax.tick_params(length=0)
        ax.grid(visible=False)
        for spine in ax.spines.values():
            spine.set_visible(False)

    return Panels(dataset_order(cells["dataset"]), draw, size=(4.2, 3.1))
