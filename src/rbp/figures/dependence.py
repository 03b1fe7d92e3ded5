"""Figures of how tokens depend on each other: ratios against N, laws held against long windows, correlations."""

from collections.abc import Mapping, Sequence

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from rbp.figures.emergence import by_number, shade_legend, shades
from rbp.figures.style import INK, Panels, log_axis
from rbp.names import dataset_label

#: law → (colour, marker)
LAWS = {
    "independence": ("#7F7F7F", "s"),
    "markov": ("#D55E00", "^"),
    "beta-binomial": ("#2A7FC0", "o"),
    "renewed": ("#009E73", "D"),
}


def against_length(
    table: pd.DataFrame,
    value: str,
    *,
    ylabel: str,
    panel: str = "family",
    line: str = "k",
    reference: float | None = None,
) -> Panels:
    """`value` with its interval against N: a panel for each `panel`, a line for each `line`.

    table: the columns `panel`, `line`, n, `value`, low and high (NaN: no interval). `reference` is drawn dashed.
    """
    colours = shades(sorted(table[line].unique()))

    def draw(ax: Axes, key: str) -> None:
        own = table[table[panel] == key]
        for place, (each, rows) in enumerate(by_number(own, line)):
            rows = rows.sort_values("n")
            x = rows["n"] * 1.025 ** (place - 3)
            ax.vlines(x, rows["low"], rows["high"], color=colours[each], lw=1.2, alpha=0.6)
            ax.plot(x, rows[value], "o-", color=colours[each], ms=4, mew=0, lw=1.2)
        if reference is not None:
            ax.axhline(reference, color=INK, lw=0.9, ls=(0, (5, 3)))
        lengths = sorted(own["n"].unique())
        ax.set_xscale("log")
        ax.set_xticks(lengths, [f"{n:g}" for n in lengths])
        ax.minorticks_off()
        ax.set_xlabel("length N of the window (tokens)")
        ax.set_ylabel(ylabel)
        ax.set_title(dataset_label(key) if panel == "dataset" else key)
        sns.despine(ax=ax)
        shade_legend(ax, {each: colours[each] for each in own[line].unique()}, "S" if line == "size" else line)

    return Panels(list(dict.fromkeys(table[panel])), draw, size=(4.8, 4.4))


def law_factors(table: pd.DataFrame) -> Panels:
    """−ln p as each law predicts it, over the measured one, against k: a panel for each family and length.

    table: family, n, k, law, factor, low, high (of the models). 1 is right; below it a law promises too much success.
    """
    cells = table[["family", "n"]].drop_duplicates().itertuples(index=False)
    keys: Mapping[str, tuple[str, int]] = {f"{family}, N = {n}": (family, n) for family, n in cells}

    def draw(ax: Axes, key: str) -> None:
        family, n = keys[key]
        own = table[(table["family"] == family) & (table["n"] == n)]
        ax.axhline(1, color=INK, lw=0.9, ls=(0, (5, 3)))
        for place, (law, (colour, marker)) in enumerate(LAWS.items()):
            rows = own[own["law"] == law].sort_values("k")
            x = rows["k"] * 1.05 ** (place - 1.5)
            ax.vlines(x, rows["low"], rows["high"], color=colour, lw=1.2, alpha=0.6)
            ax.plot(x, rows["factor"], marker, ls="-", color=colour, ms=5, mew=0, lw=1, label=law)
        ax.set_xscale("log")
        ax.set_yscale("log")
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set_xlabel("threshold k")
        ax.set_ylabel("−ln p, predicted over measured")
        ax.set_title(key)
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
        sns.despine(ax=ax)

    return Panels(list(keys), draw, size=(4.8, 4.4))


def correlations(table: pd.DataFrame, datasets: Sequence[str]) -> Panels:
    """The correlation of hits with those `lag` tokens on, a panel for each dataset, a colour for each size.

    table: dataset, size, x (lag), value, within: solid and dotted (less what documents share).
    """
    colours = shades(sorted(int(size) for size in table["size"].unique()))

    def draw(ax: Axes, dataset: str) -> None:
        own = table[table["dataset"] == dataset]
        ax.axhline(0, color=INK, lw=0.8)
        for size, rows in by_number(own, "size"):
            rows = rows.dropna(subset=["value"]).sort_values("x")
            ax.plot(rows["x"], rows["value"], "o-", color=colours[size], ms=3.5, mew=0, lw=1.2)
            ax.plot(rows["x"], rows["within"], ":", color=colours[size], lw=1.2)
        ax.set_xscale("log")
        log_axis(ax, "x")
        ax.set_xlabel("distance (tokens)")
        ax.set_ylabel("correlation of hits")
        ax.set_title(dataset_label(dataset))
        sns.despine(ax=ax)
        shade_legend(ax, colours, "S")

    return Panels(list(datasets), draw, size=(4.8, 4.4))
