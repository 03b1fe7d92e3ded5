"""Figures of success on N tokens in a row (figure 7), and of how tokens depend on each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbp.book.figure_style import LABELS, Panels, legend_below, log_axis, single_panel
from rbp.paper.curves import curves, numbered, shades
from rbp.paper.display import Columns, shown

LENGTH = "length N of the window (tokens)"


def spread(values: "pd.Series[int]", count: int) -> list[int]:
    """So many of the different values, from the smallest to the largest, evenly by place; all where there are fewer."""
    every = sorted(int(value) for value in values.unique())
    places = np.linspace(0, len(every) - 1, min(count, len(every))).round().astype(int)
    return [every[place] for place in places]


def by_number(table: pd.DataFrame, column: str) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of each whole number in `column`, in ascending order."""
    for value in sorted(int(value) for value in table[column].unique()):
        yield value, table[table[column] == value]


def success_panels(counts: pd.DataFrame, laws: pd.DataFrame) -> Panels:
    """p(N) against S, a panel for each k and a colour for each N: measured points, and each N's own fitted curve.

    counts: size, k, n, p, of one family on one dataset. laws: k, n, constant, alpha, of the law
    p = exp(−exp(constant)·S^(−alpha)). A point without any success is hollow.
    """
    fitted = []
    for law in laws.to_dict("records"):
        measured = counts.loc[(counts["k"] == law["k"]) & (counts["n"] == law["n"]), "size"]
        size = np.geomspace(measured.min(), measured.max(), 60)
        p = np.exp(-np.exp(law["constant"] - law["alpha"] * np.log(size)))
        fitted.append(pd.DataFrame({"k": law["k"], "n": law["n"], "size": size, "p": p}))
    return curves(
        counts.assign(hollow=counts["p"] == 0), "size", "p", labels=(LABELS["size"], "share of windows that succeed"),
        panel="k", line="n", fitted=fitted, ylim=(-0.03, 1.03), size=(4.6, 4.2),
    )  # fmt: skip


def independent_panels(counts: pd.DataFrame) -> Panels:
    """p(N) against S, a panel for each of four N and a colour for each k: measured points, and dotted RBP_k^N.

    counts: size, k, n, p, of one family on one dataset, n = 1 included: that is RBP_k.
    """
    single = counts.loc[counts["n"] == 1, ["size", "k", "p"]].rename(columns={"p": "rbp"})
    rows = counts[counts["n"].isin(spread(counts.loc[counts["n"] > 1, "n"], 4))]
    alone = rows.merge(single, on=["size", "k"])
    return curves(
        rows, "size", "p", labels=(LABELS["size"], "share of windows that succeed"), panel="n", line="k",
        styles={k: (colour, "o", ":") for k, colour in shades(rows["k"].unique()).items()},
        fitted=[alone.assign(p=alone["rbp"] ** alone["n"])], ylim=(-0.03, 1.03), size=(4.6, 4.2),
    )  # fmt: skip


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
        legend_below(ax, numbered(colours, "N"))

    return Panels(spread(joint["k"], 4), draw, size=(4.6, 4.2))


def length_exponents(joint: pd.DataFrame, styles: Mapping[str, tuple[str, str]]) -> Panels:
    """β, the power of N, against k with its interval, for each family; 1 is the paper's law: in proportion to N.

    joint: the "free length" rows of `emergence.fit_joint_table`, on one dataset.
    """
    rows = joint.assign(low=joint["length_low"], high=joint["length_high"])
    labels = ("threshold k", "β, the power of N")
    return curves(
        rows, "k", "length", labels=labels, panel=None, line="family", styles=styles, at=[1], ylim="shared",
        size=(6.4, 3.8),
    )  # fmt: skip


def sharpness(found: pd.DataFrame) -> Panels:
    """The steepest rise of the fitted curves of success against N, a line for each k (`emergence.transitions`)."""
    rows = found.assign(low=found["steepest_low"], high=found["steepest_high"])
    labels = (LENGTH, "steepest rise of p per tenfold S")
    return curves(rows, "n", "steepest", labels=labels, panel=None, line="k", ylim=(0, None), size=(6.4, 4.6))


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
        legend_below(ax, numbered(colours, "N"))

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
    at = [] if reference is None else [reference]
    return curves(table, "n", value, labels=(LENGTH, ylabel), panel=panel, line=line, at=at, size=(4.6, 4.8))


def law_factors(found: pd.DataFrame) -> Panels:
    """−ln p as each law predicts it, over the measured one, against k: a panel for each family and length.

    found: `independence.extrapolations`. Drawn are medians over the models, and the smallest and largest. 1 is right;
    below it a law promises too much success.
    """
    factors = found.groupby(["family", "n", "k", "law"])["factor"]
    rows = factors.agg(factor="median", low="min", high="max").reset_index()
    rows["of"] = [f"{row.family}, N = {row.n}" for row in rows.itertuples()]
    return curves(
        rows, "k", "factor", labels=("threshold k", "−ln p, predicted over measured"), panel="of", line="law",
        styles=LAWS, log="xy", at=[1], size=(4.6, 4.4),
    )  # fmt: skip


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
