"""Figures that set cross-entropy beside −ln RBP_k (figure 8a and Table 1 of the paper)."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbp.errors import FitError
from rbp.figures.style import INK, LABELS, Panels, family_style, label_line_ends, log_axis, one
from rbp.names import dataset_label, dataset_order
from rbp.scaling import fit_power_law
from rbp.two_metrics import ROUNDING

METRICS = {"cross_entropy": ("#B0457B", "D"), "neg_log_rbp": ("#2A7FC0", "o")}


def fall_panels(pairs: pd.DataFrame, k: int) -> Panels:
    """Both metrics of `two_metrics.pair_metrics` against S, each over its fitted line at the smallest model.

    One panel for each dataset and family with three sizes or more.
    """
    sizes = pairs.groupby(["dataset", "family"])["size"].nunique()
    cells = [cell for cell in sizes.index if sizes[cell] >= 3]
    order = dataset_order(dataset for dataset, _ in cells)
    keys = {f"{dataset_label(d)}: {f}": (d, f) for d, f in sorted(cells, key=lambda c: (order.index(c[0]), c[1]))}
    names = {"cross_entropy": "cross-entropy", "neg_log_rbp": rf"$-\ln\,\mathrm{{RBP}}_{{{k}}}$"}

    def draw(ax: Axes, key: str) -> None:
        dataset, family = keys[key]
        own = pairs[(pairs["dataset"] == dataset) & (pairs["family"] == family)].sort_values("size")
        ends = {}
        for metric, (colour, marker) in METRICS.items():
            try:
                law = fit_power_law(own["size"], own[metric])
            except FitError:
                continue
            line = law.predict(np.geomspace(law.size_min, law.size_max, 30))
            start = float(line["value"].iloc[0])
            ax.plot(own["size"], own[metric] / start, marker, color=colour, mew=0, zorder=3)
            ax.plot(line["size"], line["value"] / start, "--" if law.weak else "-", color=colour, lw=1.4)
            ends[names[metric]] = (law.size_max, float(line["value"].iloc[-1]) / start, colour)
        ax.set_xscale("log")
        ax.set_yscale("log")
        log_axis(ax, "x", plain=False)
        log_axis(ax, "y")
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("relative to the smallest model")
        ax.set_title(key)
        sns.despine(ax=ax)
        label_line_ends(ax, ends)

    return Panels(list(keys), draw)


def difference_dots(printed: pd.DataFrame, tests: pd.DataFrame) -> Figure:
    """Printed α of cross-entropy minus α of −ln RBP_1, a row for each dataset, a marker for each family.

    `printed`: rows of `two_metrics.printed_differences` at one k; `tests`: a `paired_table`, whose intervals are
    drawn where there is one. The grey band is what rounding can do.
    """
    datasets = dataset_order(printed["dataset"])[::-1]
    families = sorted(printed["family"].unique())

    def place(dataset: str, family: str) -> float:
        return datasets.index(dataset) + 0.16 * ((len(families) - 1) / 2 - families.index(family))

    def draw(ax: Axes) -> None:
        ax.axvspan(-ROUNDING, ROUNDING, color="#8a8d91", alpha=0.35, lw=0)
        ax.axvline(0, color=INK, lw=0.8)
        for row in tests.to_dict("records"):
            if row["dataset"] in datasets and row["family"] in families:
                colour = family_style(row["family"])[0]
                ax.hlines(place(row["dataset"], row["family"]), row["low"], row["high"], color=colour, lw=1.6)
        for family in families:
            own = printed[printed["family"] == family]
            colour, marker = family_style(family, families)
            heights = [place(dataset, family) for dataset in own["dataset"]]
            ax.plot(own["difference"], heights, marker, color=colour, mew=0, label=family, zorder=3)
        ax.set_yticks(range(len(datasets)), [dataset_label(dataset) for dataset in datasets])
        ax.set_xlabel("α of cross-entropy − α of −ln RBP₁, as printed")
        ax.grid(axis="y", visible=False)
        ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.13), ncols=len(families))
        sns.despine(ax=ax)

    return one(draw, size=(6.4, 4.6))


def printed_scatter(printed: pd.DataFrame, named: int = 5) -> Figure:
    """Printed α of cross-entropy against α of −ln RBP_1, with the diagonal; the `named` farthest cells are named."""
    families = sorted(printed["family"].unique())

    def draw(ax: Axes) -> None:
        both = printed[["alpha_rbp", "alpha_ce"]]
        ends = [both.min().min() * 0.7, both.max().max() * 1.06]
        ax.plot(ends, ends, color=INK, lw=0.9)
        for family in families:
            own = printed[printed["family"] == family]
            colour, marker = family_style(family, families)
            ax.plot(own["alpha_rbp"], own["alpha_ce"], marker, color=colour, mew=0, label=family)
        for row in printed.loc[printed["difference"].abs().nlargest(named).index].to_dict("records"):
            above = row["difference"] > 0
            text = f"{dataset_label(row['dataset'])}, R² {row['r_squared_ce']:.2f}"
            text = text if row["r_squared_ce"] < 0.9 else dataset_label(row["dataset"])
            ax.annotate(
                text,
                (row["alpha_rbp"], row["alpha_ce"]),
                xytext=(-7, 2) if above else (7, -4),
                textcoords="offset points",
                ha="right" if above else "left",
                fontsize=9,
                color=family_style(row["family"], families)[0],
            )
        ax.set(xlim=ends, ylim=ends, aspect="equal")
        ax.set_xlabel("α of −ln RBP₁, printed")
        ax.set_ylabel("α of cross-entropy, printed")
        ax.legend(loc="upper left")
        sns.despine(ax=ax)

    return one(draw, size=(5.2, 4.9))
