"""Figures about the measurements themselves: which there are, and how far sampling would scatter them."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rbp.figures.style import INK, Panels, family_style, log_axis, one
from rbp.names import dataset_label, dataset_order

_FULL, _PART = "#2A7FC0", "#9DC3E6"
_ENTROPY = "CE"


def coverage(table: pd.DataFrame) -> pd.DataFrame:
    """How many models were measured: dataset, family, column (the threshold k as text, or CE), models, of.

    `table` is a measurement table; `of` is how many models of the family it holds anywhere. Columns are in order.
    """
    column = table["k"].astype("string").fillna(_ENTROPY).rename("column")
    counted = table.groupby(["dataset", "family", column])["model"].nunique().rename("models").reset_index()
    counted["of"] = counted["family"].map(table.groupby("family")["model"].nunique())
    order = pd.to_numeric(counted["column"], errors="coerce").astype("Float64").fillna(np.inf)
    return counted.assign(order=order).sort_values(["dataset", "family", "order"]).drop(columns="order")


def coverage_panels(counted: pd.DataFrame) -> Panels:
    """A grid of family by threshold for each dataset, with the number of models in each square (`coverage`).

    Dark squares hold all models of the family, light ones some; a missing square holds none.
    """
    numbers = sorted(int(name) for name in set(counted["column"]) - {_ENTROPY})
    columns = [str(number) for number in numbers] + [_ENTROPY] * (_ENTROPY in set(counted["column"]))
    families = sorted(counted["family"].unique())

    def draw(ax: Axes, dataset: str) -> None:
        own = counted[counted["dataset"] == dataset]
        for column, family, models, of in own[["column", "family", "models", "of"]].itertuples(index=False, name=None):
            x, y = columns.index(column), families.index(family)
            full = models == of
            colour = _FULL if full else _PART
            ax.add_patch(Rectangle((x - 0.45, y - 0.43), 0.9, 0.86, facecolor=colour, edgecolor="none"))
            ink = "white" if full else "black"
            ax.text(x, y, str(models), ha="center", va="center", color=ink, fontsize=8)
        ax.set_xlim(-0.6, len(columns) - 0.4)
        ax.set_ylim(len(families) - 0.4, -0.6)
        ax.set_xticks(range(len(columns)), columns, rotation=90)
        ax.set_yticks(range(len(families)), families)
        ax.tick_params(length=0)
        ax.grid(False)
        ax.set_xlabel("threshold k; CE: cross-entropy")
        ax.set_title(dataset_label(dataset))
        sns.despine(ax=ax, left=True, bottom=True)

    return Panels(dataset_order(counted["dataset"]), draw, size=(5.2, 0.33 * len(families) + 1.5))


def tokens_figure(behind: pd.DataFrame, stated: int) -> Figure:
    """The number of tokens behind the points of each dataset and family, beside the number `stated`.

    `behind` has dataset, family, tokens and basis; hollow markers are "likely", not identified.
    """
    datasets, families = dataset_order(behind["dataset"]), sorted(set(behind["family"]))

    def draw(ax: Axes) -> None:
        ax.axvline(stated, color=INK, lw=1.2, ls=(0, (5, 3)))
        ax.annotate(
            f"the paper: at least {stated:,}", (stated, 1), (-5, 4), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="right", fontsize=9.5,
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
        ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.set_xlabel("tokens behind a point")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=4, columnspacing=1, handletextpad=0.2)
        sns.despine(ax=ax)

    return one(draw, size=(7.2, 3.4))


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


def sampling_panels(points: pd.DataFrame, scatter: pd.DataFrame) -> Panels:
    """Relative error of −ln RBP_k against k: what counting independent tokens gives, and the scatter found.

    `points` has dataset, family, k and relative_se: lines join its median over the models of a family. `scatter` has
    dataset, family, k and residual_se: a marker each.
    """
    families = sorted(set(points["family"]))
    low = 100 * min(points["relative_se"].min(), scatter["residual_se"].min()) / 1.5
    high = 100 * max(points["relative_se"].max(), scatter["residual_se"].max()) * 1.5

    def draw(ax: Axes, dataset: str) -> None:
        own = points[points["dataset"] == dataset]
        for place, family in enumerate(families):
            colour, marker = family_style(family, families)
            line = own[own["family"] == family].groupby("k")["relative_se"].median()
            ax.plot(line.index.to_numpy(float), 100 * line.to_numpy(), "-", color=colour, lw=1.3)
            found = scatter[(scatter["dataset"] == dataset) & (scatter["family"] == family)]
            x = found["k"].to_numpy(float) * 1.1 ** (place - (len(families) - 1) / 2)
            ax.plot(x, 100 * found["residual_se"].to_numpy(), marker, color=colour, mew=0, ms=6, label=family)
        ax.set_xlim(0.7, points["k"].max() * 1.4)
        ax.set_ylim(low, high)
        log_axis(ax, "x", plain=False)
        log_axis(ax, "y")
        ax.set_xlabel("threshold k")
        ax.set_ylabel("relative error (per cent)")
        ax.set_title(dataset_label(dataset))
        ax.legend(loc="upper left", ncols=2, columnspacing=0.8, handletextpad=0.2, labelcolor=INK)
        sns.despine(ax=ax)

    return Panels(dataset_order(points["dataset"]), draw, size=(4.6, 3.8))
