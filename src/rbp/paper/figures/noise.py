"""Figures of noise at large k: scatter beside what counting gives, missed tokens by how often they were trained on."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from rbp.book.figure_style import INK, Panels, family_style, legend_below, log_axis
from rbp.paper.curves import curves, numbered, shades
from rbp.paper.display import Columns, shown
from rbp.paper.figures.emergence import by_number, spread
from rbp.paper.noise import BEYOND
from rbp.paper.wording import dataset_label, dataset_order


def scatter_panels(table: pd.DataFrame) -> Panels:
    """The scatter of models beyond counting (markers, with intervals), and counting itself (dashes), against k.

    table: `noise.scatter_judged`. One panel for each family and dataset. Grey bars: counting, for independent tokens
    and as far as the interval of the design effect goes. Filled: more than noise. A line to the bottom includes none.
    """
    cells = table[["dataset", "family"]].drop_duplicates().itertuples(index=False)
    order = dataset_order(table["dataset"])
    ordered = sorted(cells, key=lambda cell: (order.index(cell[0]), cell[1]))
    keys = {f"{family} on {dataset_label(dataset)}": (dataset, family) for dataset, family in ordered}
    ends = table["k"].min() / 1.6, table["k"].max() * 1.6
    bottom = 100 * table["counting"].min() / 4

    def draw(ax: Axes, key: str) -> None:
        dataset, family = keys[key]
        own = table[(table["dataset"] == dataset) & (table["family"] == family)].sort_values("k")
        colour, marker = family_style(family, sorted(set(table["family"])))
        for row in own.itertuples():
            counting = 100 * row.counting
            least, most = np.nanmin([1.0, row.effect_low]), np.nanmax([1.0, row.effect_high])
            span = [counting * np.sqrt(least), counting * np.sqrt(most)]
            ax.plot([row.k, row.k], span, color=INK, lw=5, alpha=0.22, solid_capstyle="butt")
            ax.plot(row.k, counting, "_", color=INK, ms=8, alpha=0.7)
            line = np.maximum(100 * np.array([row.extra_low, row.extra_high]), bottom)
            ax.plot([row.k * 1.06] * 2, line, "-", color=colour, lw=1.2)
            style = {"mew": 0} if row.verdict == BEYOND else {"mfc": "white", "mew": 1.2}
            ax.plot(row.k * 1.06, max(100 * row.extra, bottom), marker, color=colour, ms=6, zorder=3, **style)
        ax.set_yscale("log")
        ax.set_ylim(bottom, 150 * table["extra_high"].clip(upper=2).max())
        log_axis(ax, "y")
        ax.set_xlim(*ends)
        log_axis(ax, "x")
        ax.set_xlabel("threshold k")
        ax.set_ylabel("scatter of −ln RBPₖ (per cent)")
        ax.set_title(key)
        sns.despine(ax=ax)

    return Panels(list(keys), draw)


def by_count_panels(table: pd.DataFrame) -> Panels:
    """The rate of misses by how often a token stood in the training text, a panel for each dataset, a line for each S.

    table: dataset, size, low, miss_rate, tokens (`noise.by_training_count` at one rate). Classes of fewer
    than 20 tokens in the text are left out.
    """
    lows = sorted(int(low) for low in table["low"].unique())
    names = [f"{a}" if b == a + 1 else f"{a:,}–{b - 1:,}" for a, b in pairwise(lows)] + [f"{lows[-1]:,}+"]
    colours = shades(sorted(int(size) for size in table["size"].unique()))

    def draw(ax: Axes, dataset: str) -> None:
        own = table[(table["dataset"] == dataset) & (table["tokens"] >= 20)]
        for size, rows in by_number(own, "size"):
            rows = rows[rows["miss_rate"] > 0].sort_values("low")
            place = [lows.index(low) for low in rows["low"]]
            ax.plot(place, rows["miss_rate"], "o-", color=colours[size], ms=4.5, mew=0, lw=1.2)
        ax.set_xticks(range(len(lows)), names, rotation=30, ha="right")
        ax.set_yscale("log")
        log_axis(ax, "y")
        ax.set_xlabel("times in the training text")
        ax.set_ylabel("share of tokens missed")
        ax.set_title(dataset_label(dataset))
        sns.despine(ax=ax)
        legend_below(ax, numbered(colours, "S"))

    return Panels(dataset_order(table["dataset"]), draw, size=(4.6, 4.8))


def tokens_panels(table: pd.DataFrame, *, used: float | None = None) -> Panels:
    """How many tokens a wanted precision of α takes: a panel for each design effect, a line for each of six k.

    table: k, half_width, effect (design effect), tokens (infinite: not drawn). `used`: the tokens that were in fact
    used, a dashed line.
    """
    rows = table[table["k"].isin(spread(table["k"], 6)) & np.isfinite(table["tokens"])]
    return curves(
        rows.assign(design=[f"design effect {effect:g}" for effect in rows["effect"]]), "half_width", "tokens",
        labels=("wanted half-width of the interval of α", "tokens for each model"), panel="design", line="k",
        styles={k: (colour, "") for k, colour in shades(rows["k"].unique()).items()}, log="xy",
        at=[used] if used else [], ylim="shared", size=(4.6, 4.2),
    )  # fmt: skip


# ── Tables: what `Page.table` takes


def scatter_shown(judged: pd.DataFrame) -> dict[str, Any]:
    """The scatter of each fit, tested and estimated (rows of `noise.scatter_judged`)."""
    percent = ["counting", "extra", "extra_low", "extra_high"]
    columns: Columns = {
        "dataset": "Dataset",
        "family": "Family",
        "k": "k",
        "misses": ("fewest missed", "{:,.0f}"),
        "p": ("p", "{:.3f}"),
        "p_holm": ("p, Holm", "{:.3f}"),
        "counting": ("counting, %", "{:.1f}"),
        ("extra", "extra_low", "extra_high"): ("beyond it, %", "{:.1f} [{:.1f}, {:.1f}]"),
        "verdict": ("verdict", lambda verdict: verdict.removesuffix(" than noise")),  # short, to fit the page
    }
    caption = (
        "<b>Is the scatter about the line more than counting?</b> p: that counting independent tokens makes as much. "
        "Per cent: standard deviations of ln(−ln RBPₖ)."
    )
    table = judged.assign(**{name: 100 * judged[name] for name in percent})
    order = dataset_order(table["dataset"])
    table = table.assign(place=table["dataset"].map(order.index)).sort_values(["place", "family", "k"])
    return shown(table, columns, caption=caption, data=judged)


def rises_shown(rising: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The cases in which misses rise with size (`noise.rises`)."""
    columns: Columns = {
        "dataset": "Dataset",
        "family": "Family",
        "k": "k",
        "misses_smallest": ("missed, smallest model", "{:.0f}"),
        "misses_largest": ("missed, largest model", "{:.0f}"),
        "ends_z": ("z at least", "{:.1f}"),
        "ends_needed": ("effect needed", "{:.1f}"),
        "trend_needed": ("trend: effect needed", "{:.1f}"),
        "effect": ("effect on the ladder", "{:.1f}"),
        "effect_high": ("at most (95%)", "{:.1f}"),
    }
    caption = (
        "<b>All cases in which misses rise with size.</b> z at least: of the largest model against the smallest. "
        f"Effect needed: the design effect that would make it, or the trend, chance, at {level:.0%}."
    )
    return shown(rising, columns, caption=caption)
