"""Figures of success on N tokens in a row (figure 7), and of how tokens depend on each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rbp.book.figure_style import INK, LABELS, Panels, log_axis, power_of_ten, single_panel
from rbp.paper.display import Columns, shown
from rbp.paper.wording import dataset_label, dataset_order


def shades(values: Sequence[int]) -> dict[int, str]:
    """A colour for each of an ordered set of numbers, from dark to light, readable on white and on black."""
    places = np.linspace(0.25, 0.8, max(len(values), 2))
    return {value: to_hex(colormaps["plasma"](place)) for value, place in zip(sorted(values), places, strict=False)}


def spread(values: "pd.Series[int]", count: int) -> list[int]:
    """So many of the different values, from the smallest to the largest, evenly by place; all where there are fewer."""
    every = sorted(int(value) for value in values.unique())
    places = np.linspace(0, len(every) - 1, min(count, len(every))).round().astype(int)
    return [every[place] for place in places]


def by_number(table: pd.DataFrame, column: str) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of each whole number in `column`, in ascending order."""
    for value in sorted(int(value) for value in table[column].unique()):
        yield value, table[table[column] == value]


def shade_legend(ax: Axes, colours: Mapping[int, str], name: str, *, below: float = 0.16) -> None:
    """A legend below the panel for `shades`: "N = 1", 2, 5 …; labels at the lines' ends would hide each other."""
    handles = [
        Line2D([], [], color=colour, lw=2.2, label=(f"{name} = " if i == 0 else "") + _whole(value))
        for i, (value, colour) in enumerate(sorted(colours.items()))
    ]
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -below),
        ncols=min(len(handles), 5),
        columnspacing=1.2,
        handlelength=1.2,
    )


def _whole(value: int) -> str:
    """A whole number as it is, or with two digits and a power of ten where it is long."""
    return str(value) if value < 100_000 else power_of_ten(float(f"{value:.1e}"))


def success_panels(counts: pd.DataFrame, laws: pd.DataFrame) -> Panels:
    """p(N) against S, a panel for each k and a colour for each N: measured points, and each N's own fitted curve.

    counts: size, k, n, p, of one family on one dataset. laws: k, n, constant, alpha, of the law
    p = exp(−exp(constant)·S^(−alpha)). A point without any success is hollow.
    """
    colours = shades(sorted(counts["n"].unique()))

    def draw(ax: Axes, k: int) -> None:
        for n, rows in by_number(counts[counts["k"] == k], "n"):
            rows = rows.sort_values("size")
            colour = colours[n]
            seen = rows["p"] > 0
            ax.plot(rows["size"][seen], rows["p"][seen], "o", color=colour, ms=3.6, mew=0, zorder=3)
            ax.plot(rows["size"][~seen], rows["p"][~seen], "o", color=colour, mfc="none", ms=3.6, mew=0.8, zorder=3)
            law = laws[(laws["k"] == k) & (laws["n"] == n)]
            if len(law):
                size = np.geomspace(rows["size"].min(), rows["size"].max(), 60)
                height = np.exp(law["constant"].iloc[0] - law["alpha"].iloc[0] * np.log(size))
                ax.plot(size, np.exp(-height), color=colour, lw=1.1)
        ax.set_ylim(-0.03, 1.03)
        ax.set_xscale("log")
        log_axis(ax, "x", plain=False)
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("share of windows that succeed")
        ax.set_title(f"k = {k}")
        sns.despine(ax=ax)
        shade_legend(ax, colours, "N")

    return Panels(sorted(int(k) for k in counts["k"].unique()), draw, size=(4.6, 4.2))


def joint_panels(counts: pd.DataFrame, joint: pd.DataFrame) -> Panels:
    """−ln p(N) against S in log-log axes, a panel for each of four k: points of four lengths N, and two joint fits.

    counts: size, k, n, successes, windows; joint: rows of `emergence.fit_joint_table` of the same family. Dashed:
    equation 7, in proportion to N; solid: to a power of N. A triangle is a lower limit: no window succeeded.
    """
    lengths = spread(counts["n"], 4)
    counts = counts[counts["n"].isin(lengths)]
    colours = shades(lengths)

    def draw(ax: Axes, k: int) -> None:
        for n, rows in by_number(counts[counts["k"] == k], "n"):
            rows = rows.sort_values("size")
            colour = colours[n]
            seen = rows[(rows["successes"] > 0) & (rows["successes"] < rows["windows"])]
            ax.plot(seen["size"], -np.log(seen["p"]), "o", color=colour, ms=3.6, mew=0, zorder=3)
            none = rows[rows["successes"] == 0]
            ax.plot(none["size"], np.log(none["windows"]), "^", color=colour, mfc="none", ms=4, mew=0.9, zorder=3)
            size = np.geomspace(rows["size"].min(), rows["size"].max(), 2)
            for fit in joint[joint["k"] == k].to_dict("records"):
                height = np.exp(fit["constant"] + fit["length"] * np.log(n) - fit["alpha"] * np.log(size))
                ax.plot(size, height, "-" if fit["kind"] == "free length" else "--", color=colour, lw=1)
        ax.set_xscale("log")
        ax.set_yscale("log")
        log_axis(ax, "x", plain=False)
        log_axis(ax, "y")
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("−ln p(N, k)")
        ax.set_title(f"k = {k}")
        sns.despine(ax=ax)
        shade_legend(ax, colours, "N")

    return Panels(spread(joint["k"], 4), draw, size=(4.6, 4.2))


def length_exponents(joint: pd.DataFrame, styles: Mapping[str, tuple[str, str]]) -> Figure:
    """β, the power of N, against k with its interval, for each family; 1 is the paper's law.

    joint: the "free length" rows of `emergence.fit_joint_table`, on one dataset.
    """

    def draw(ax: Axes) -> None:
        ax.axhline(1, color=INK, lw=0.9, ls=(0, (5, 3)))
        ax.annotate("in proportion to N", (1, 1), xytext=(0, 4), textcoords="offset points", fontsize=9)
        for place, (family, own) in enumerate(joint.groupby("family")):
            own = own.sort_values("k")
            colour, marker = styles[str(family)]
            x = own["k"] * 1.06**place
            ax.vlines(x, own["length_low"], own["length_high"], color=colour, lw=1.4)
            ax.plot(x, own["length"], marker, color=colour, mew=0, label=str(family), ls="-", lw=0.8)
        ax.set_xscale("log")
        log_axis(ax, "x")
        ax.set_ylim(min(0.4, float(joint["length_low"].min()) - 0.03), 1.08)
        ax.set_xlabel("threshold k")
        ax.set_ylabel("β, the power of N")
        ax.legend(loc="lower right")
        sns.despine(ax=ax)

    return single_panel(draw, size=(6.4, 3.8))


def sharpness(found: pd.DataFrame) -> Figure:
    """The steepest rise of the fitted curves of success against N, a line for each k (`emergence.transitions`)."""
    colours = shades(sorted(found["k"].unique()))

    def draw(ax: Axes) -> None:
        lengths = sorted(found["n"].unique())
        for place, (k, own) in enumerate(by_number(found.dropna(subset=["steepest"]), "k")):
            own = own.sort_values("n")
            x = own["n"] * 1.03 ** (place - 4)
            ax.vlines(x, own["steepest_low"], own["steepest_high"], color=colours[k], lw=1, alpha=0.6)
            ax.plot(x, own["steepest"], "o-", color=colours[k], ms=4, mew=0, lw=1.1)
        ax.set_xscale("log")
        ax.set_xticks(lengths, [str(n) for n in lengths])
        ax.minorticks_off()
        ax.set_ylim(0, None)
        ax.set_xlabel("length N of the window (tokens)")
        ax.set_ylabel("steepest rise of p per tenfold S")
        sns.despine(ax=ax)
        shade_legend(ax, colours, "k")

    return single_panel(draw, size=(6.4, 4.6))


def moved_curves(alpha: float, lengths: Sequence[int], constant: float) -> Figure:
    """Equation 8 drawn for several N: in ln S the curves are one curve, moved.

    p = exp(−N·(S/S₁)^(−alpha)), S₁ = exp(constant/alpha), over the sizes where p passes from 0.01 to 0.9.
    """
    colours = shades(lengths)
    turn = {n: np.exp((constant + np.log(n)) / alpha) for n in lengths}  # where p = 1/e

    def draw(ax: Axes) -> None:
        first, last = turn[min(lengths)], turn[max(lengths)]
        size = np.geomspace(first * np.log(100) ** (-1 / alpha), last * (-np.log(0.9)) ** (-1 / alpha), 400)
        for n in lengths:
            ax.plot(size, np.exp(-((size / turn[n]) ** -alpha)), color=colours[n])
            ax.plot(turn[n], np.exp(-1), "o", color=colours[n], ms=5, mew=0)
        ax.set_xscale("log")
        log_axis(ax, "x", plain=False)
        ax.set_ylim(0, 1)
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("p by equation 8")
        sns.despine(ax=ax)
        shade_legend(ax, colours, "N")

    return single_panel(draw, size=(6.4, 4.0))


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

    names = dataset_order(table[panel]) if panel == "dataset" else list(dict.fromkeys(table[panel]))
    return Panels(names, draw, size=(4.8, 4.4))


def law_factors(found: pd.DataFrame) -> Panels:
    """−ln p as each law predicts it, over the measured one, against k: a panel for each family and length.

    found: `independence.extrapolations`. Drawn are medians over the models, and the smallest and largest. 1 is right;
    below it a law promises too much success.
    """
    factors = found.groupby(["family", "n", "k", "law"])["factor"]
    table = factors.agg(factor="median", low="min", high="max").reset_index()
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


# ── Tables: what `Page.table` takes


def printed_shown(printed: pd.DataFrame) -> dict[str, Any]:
    """Figure 7's printed fits beside ours (`emergence.beside_printed`)."""
    columns: Columns = {
        "k": "k",
        "zeros": "zeros",
        "alpha_printed": ("α printed", "{:.3f}"),
        "alpha": ("α recomputed", "{:.3f}"),
        "r_squared_printed": ("R² printed", "{:.3f}"),
        "r_squared": ("R² recomputed", "{:.3f}"),
        "r_squared_pooled": ("R², one line for all N", "{:.3f}"),
    }
    caption = (
        "<b>Figure 7’s printed fits, recomputed.</b> Zeros: lengths and models without a success. The one line for all "
        "N leaves them out."
    )
    return shown(printed, columns, caption=caption)


def dependence_shown(found: pd.DataFrame, size: int, *, level: float) -> dict[str, Any]:
    """Dependence in a ladder's largest rung (`independence.at_largest`), of `size` parameters."""
    gains = {"chain": "gain markov", "documents": "gain documents", "both": "gain both"}
    table = found.assign(**{gain: 1000 * found[gain] for gain in gains.values()})
    columns: Columns = {
        "dataset": "Domain",
        "k": "k",
        "shared": ("correlation", "{:.3f}"),
        ("design effect", "effect low", "effect high"): (
            f"design effect, {level:.0%} interval",
            "{:.1f} [{:.1f}, {:.1f}]",
        ),
        **{gain: (f"gain, {label}", "{:.2f}") for label, gain in gains.items()},
    }
    caption = (
        f"<b>Dependence in the largest rung</b>, S = {size:,}. Correlation: of two tokens of one document. Design "
        "effect: the variance of RBPₖ by documents over that by tokens. Gain: of a law over independence, in "
        "thousandths of a nat per token."
    )
    return shown(table, columns, caption=caption, data=found)
