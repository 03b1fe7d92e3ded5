"""The book's argument in one figure of four panels: what holds, and what does not."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from rbp.book.figure_style import FAMILIES, INK, LABELS, Panels, family_style, log_axis, power_of_ten
from rbp.paper.figures.emergence import shades
from rbp.paper.figures.token_by_token import MARKERS
from rbp.paper.synthesis import CROSS_ENTROPY, SMALL_K
from rbp.paper.wording import dataset_label

HOLDS, NEARLY, FAILS = "✓", "≈", "✗"
STRAIGHT = 0.97  # the paper's bar for R² (section 4.2)
_LADDER = "Ladder"


def argument(lines: pd.DataFrame, ahead: pd.DataFrame, pairs: pd.DataFrame, curves: pd.DataFrame, row: pd.DataFrame) -> Panels:
    """Four panels: −ln RBP_k by size, forecasts of hidden models, RBP_1 by cross-entropy, N tokens in a row.

    lines, ahead and row: of `synthesis`; pairs and curves: of `mixtures.points` and `mixtures.slopes`. Each panel's
    title has its verdict, which follows from what it draws.
    """
    panels = {
        "size": lambda ax: _size(ax, lines),
        "ahead in size": lambda ax: _ahead(ax, ahead),
        "cross-entropy": lambda ax: _entropy(ax, pairs, curves),
        "tokens in a row": lambda ax: _in_a_row(ax, row),
    }

    def draw(ax: Axes, key: str) -> None:
        panels[key](ax)
        sns.despine(ax=ax)

    return Panels(list(panels), draw, size=(4.7, 3.9))


def _size(ax: Axes, lines: pd.DataFrame) -> None:
    small = lines[lines["k"].isin(SMALL_K)]
    for (family, k), own in lines.groupby(["family", "k"]):
        colour, marker = FAMILIES[str(family)]
        ax.plot(own["size"], own["line"], color=colour, lw=1.2)
        ax.plot(own["size"], own["share"], marker, color=colour, ms=5, mew=0)
        end, rising = own.iloc[-1], own["alpha"].iloc[0] < 0
        name = f"{family}, k = {k:,}: " + ("rises" if rising else "falls") if k not in SMALL_K else f"k = {k}"
        away = (4, 8) if rising else (6, 0)
        ax.annotate(name, (end["size"], end["line"]), xytext=away, textcoords="offset points", color=INK, fontsize=9, va="center", annotation_clip=False)
    for family, own in lines.groupby("family"):
        ax.plot([], [], FAMILIES[str(family)][1], color=FAMILIES[str(family)][0], ms=5, label=family)
    ax.set_xlim(right=float(lines["size"].max()) * 5)
    log_axis(ax, "x", plain=False)
    log_axis(ax, "y")
    ax.set_xlabel(LABELS["size"])
    ax.set_ylabel("−ln RBP, smallest model = 1")
    mark = HOLDS if small["r_squared"].min() >= STRAIGHT else NEARLY
    ax.set_title(f"{mark} Small k: a power of size")
    ax.legend(loc="lower left")


def _ahead(ax: Axes, ahead: pd.DataFrame) -> None:
    metrics = [CROSS_ENTROPY, *(f"k = {k}" for k in SMALL_K)]
    families = sorted(ahead["family"].unique())
    for i, family in enumerate(families):
        colour, marker = family_style(family, families)
        own = ahead[ahead["family"] == family]
        place = own["metric"].map(metrics.index) + 0.17 * (i - (len(families) - 1) / 2)
        ax.plot(place, own["error"], marker, color=colour, ms=6, mew=0, alpha=0.85, label=family)
    ax.axhline(0, color=INK, lw=0.9)
    ax.set_xticks(range(len(metrics)), ["cross-entropy", *(f"RBP, {name}" for name in metrics[1:])])
    ax.set_xlim(-0.5, len(metrics) - 0.5)
    ax.grid(axis="x", visible=False)
    hopeful, count = int((ahead["error"] < 0).sum()), len(ahead)
    ax.text(0.985, 0.03, f"below 0: too hopeful ({hopeful} of {count})", transform=ax.transAxes, ha="right", fontsize=9)
    ax.set_ylabel("forecast − measured (%)")
    often = 2 * hopeful > count
    ax.set_title(f"{FAILS} Ahead in size: too hopeful" if often else f"{NEARLY} Ahead in size")
    ax.legend(loc="upper right", ncols=len(families), columnspacing=0.9, handletextpad=0.2)


def _entropy(ax: Axes, pairs: pd.DataFrame, curves: pd.DataFrame) -> None:
    families = sorted(pairs["family"].unique())
    for i, cell in enumerate(curves.sort_values(["family", "dataset"]).itertuples()):
        own = pairs[(pairs["dataset"] == cell.dataset) & (pairs["family"] == cell.family)]
        colour, _ = family_style(str(cell.family), families)
        many = len(own) > 50
        ax.plot(own["cost"], own["hit"], MARKERS[i % len(MARKERS)], color=colour, ms=2 if many else 4.5, mew=0, alpha=0.35 if many else 0.9)
        ends = np.array([own["cost"].min(), own["cost"].max()])
        ax.plot(ends, cell.at_zero - cell.per_nat * ends, color=colour, lw=1)
        name = dataset_label(str(cell.dataset)) if cell.family == _LADDER else str(cell.family)
        ax.annotate(name, (ends[1], cell.at_zero - cell.per_nat * ends[1]), xytext=(4, -5), textcoords="offset points", fontsize=8.5, color=colour, fontweight="bold")
    ax.set_xlabel(LABELS["cross_entropy"])
    ax.set_ylabel("RBP₁")
    mark = HOLDS if curves["r_squared"].min() >= STRAIGHT else NEARLY
    ax.set_title(f"{mark} A family and a text: one line in CE")


def _in_a_row(ax: Axes, row: pd.DataFrame) -> None:
    colours = shades(sorted(row["k"].unique()))
    for k, own in row.groupby("k"):
        ax.plot(own["n"], own["measured"], "o-", color=colours[int(k)], ms=4.5, mew=0, lw=1.2)
        ax.plot(own["n"], own["independent"], ":", color=colours[int(k)], lw=1.3)
        end = own.iloc[-1]
        ax.annotate(f"k = {k}", (end["n"], end["measured"]), xytext=(5, -2), textcoords="offset points", fontsize=9)
    first = row[row["k"] == row["k"].min()]
    last = first[first["n"] <= 100].iloc[-1]
    gain = (last["independent"] - last["measured"]) / np.log(10)
    ax.annotate(f"{last['n']:.0f} tokens: {power_of_ten(10.0 ** round(gain))} times as often", (last["n"], np.sqrt(last["measured"] * last["independent"])), xytext=(-8, 14), textcoords="offset points", ha="right", fontsize=9)
    ax.annotate("", (last["n"], last["measured"]), (last["n"], last["independent"]), arrowprops={"arrowstyle": "<->", "color": INK, "lw": 0.8})
    log_axis(ax, "x")
    log_axis(ax, "y")
    ax.set_xlabel("tokens in a row, N")
    ax.set_ylabel("−ln p (dotted: independent)")
    apart = (row["measured"] / row["independent"]).min() < 0.9
    ax.set_title(f"{FAILS} In a row: not independent" if apart else f"{HOLDS} In a row: independent")
