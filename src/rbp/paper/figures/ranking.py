"""Figures of ranked text, of RBP_k with how sure it is, and of what a study would cost."""

import html
from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from rbp.book.figure_style import FAMILIES, SPARE, Panels, rbp_label, single_panel
from rbp.paper.curves import curves

#: the upper end of each class of ranks, its name, and how strongly it is coloured: the page's ink reads on each
CLASSES = ((1, "1", 0.0), (10, "2–10", 0.14), (100, "11–100", 0.3), (np.inf, "above 100", 0.5))
COLOUR = "213, 94, 0"
_TOKEN = "display:inline-block;text-align:center;border-radius:3px;margin:1px 0;padding:0 1px;line-height:1.25"  # noqa: S105
_RANK = "display:block;font-size:0.62em;opacity:0.8;line-height:1.1"
DOCUMENTS, BINOMIAL = "documents", "tokens"


def coloured_text(pieces: pd.DataFrame) -> str:
    """A text as HTML, its tokens (columns text, rank) coloured by rank, each with its rank beneath.

    It wraps like any text, and takes the page's ink, so that it reads on a phone and in the dark.
    """
    spans = [_token(text, rank) for text, rank in pieces[["text", "rank"]].itertuples(index=False)]
    key = " ".join(f'<span style="{_style(top)}">&nbsp;{name}&nbsp;</span>' for top, name, _ in CLASSES)
    return (
        f'<p style="font-size:0.92em">Rank of the token that really comes: {key}</p>'
        f'<div class="rbp-ranked" style="font-family:monospace;font-size:0.95em;overflow-wrap:anywhere">'
        f"{''.join(spans)}</div>"
    )


def _token(text: str, rank: float) -> str:
    lines = text.count("\n")
    shown = html.escape(text.replace("\n", "↵")).replace(" ", "&nbsp;") or "&nbsp;"
    return f'<span style="{_style(rank)}">{shown}<span style="{_RANK}">{rank:g}</span></span>' + (
        "<br>" * bool(lines) if lines else "<wbr>"
    )


def _style(rank: float) -> str:
    strength = next(strength for top, _, strength in CLASSES if rank <= top)
    return f"{_TOKEN};background:rgba({COLOUR},{strength:g})"


def rbp_curve(every: pd.DataFrame, some: pd.DataFrame) -> Panels:
    """Two panels: RBP_k against k, and how wide its two intervals are.

    every: k, rbp; some: k, value (−ln RBP_k), low, high (binomial), document_low, document_high.
    """
    colours = {DOCUMENTS: FAMILIES["GPT-2"][0], BINOMIAL: FAMILIES["Pythia"][0]}
    ends = {DOCUMENTS: ("document_low", "document_high"), BINOMIAL: ("low", "high")}

    def shares(ax: Axes) -> None:
        ax.step(every["k"], every["rbp"], where="post", color=colours[BINOMIAL], linewidth=1.6)
        for name, width in ((DOCUMENTS, 1.4), (BINOMIAL, 4.0)):
            low, high = (np.exp(-some[end]) for end in reversed(ends[name]))
            ax.vlines(some["k"], low, high, color=colours[name], linewidth=width, label=f"by {name}")
        ax.yaxis.set_major_formatter(PercentFormatter(1))
        ax.set_ylabel(f"{rbp_label()}: share of tokens with rank ≤ k")
        ax.set_ylim(0, 1.02)
        ax.legend(loc="lower right")

    def widths(ax: Axes) -> None:
        for name, marker in ((DOCUMENTS, "o"), (BINOMIAL, "s")):
            low, high = (np.exp(-some[end]) for end in reversed(ends[name]))
            ax.plot(some["k"], 100 * (high - low), marker=marker, color=colours[name], label=f"by {name}")
        ax.set_ylabel("width of the interval (percentage points)")
        ax.set_ylim(bottom=0)
        ax.legend(loc="upper right")

    def draw(ax: Axes, key: str) -> None:
        (shares if key == rbp_label() else widths)(ax)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.set_xlabel("threshold k")

    return Panels((rbp_label(), "width of the intervals"), draw)


_STYLES = [(style[0], style[1]) for style in (*FAMILIES.values(), *SPARE)]
_LINES = ("-", "--", ":", "-.")


def hours_panels(table: pd.DataFrame, shards: int) -> Panels:
    """Hours against the number of GPUs: a panel for each dtype, and a line for each number of shards.

    table: columns dtype, shards, gpus, hours; shards: whose line is whole.
    """
    counts = [shards, *(count for count in sorted(table["shards"].unique()) if count != shards)]
    names = {count: f"{count} shard" + ("s" if count > 1 else "") for count in counts}
    styles = {names[count]: (*style, dash) for count, style, dash in zip(counts, _STYLES, _LINES, strict=False)}
    return curves(
        table.assign(line=table["shards"].map(names)), "gpus", "hours", labels=("GPUs", "hours for the whole study"),
        panel="dtype", styles=styles, ends=True, log="xy", ylim="shared",
    )  # fmt: skip


def time_bars(tables: Mapping[str, pd.DataFrame]) -> Figure:
    """The shares of the GPUs' time by what it is spent on, a bar for each dtype.

    tables: dtype -> columns part, hours.
    """

    def draw(ax: Axes) -> None:
        height = 0.8 / len(tables)
        for number, ((dtype, table), (colour, _)) in enumerate(zip(tables.items(), _STYLES, strict=False)):
            places = [place + (number - (len(tables) - 1) / 2) * height for place in range(len(table))]
            shares = table["hours"] / table["hours"].sum()
            ax.barh(places, shares, height=0.9 * height, color=colour, label=dtype)
            for place, share, value in zip(places, shares, table["hours"], strict=True):
                words = f"{value:.2g} h"
                ax.annotate(words, (share, place), (4, 0), textcoords="offset points", va="center")
        ax.set_yticks(range(len(table)), table["part"])
        ax.invert_yaxis()
        ax.margins(x=0.12)
        ax.xaxis.set_major_formatter(PercentFormatter(1))
        ax.set_xlabel("share of the GPUs' time")
        ax.grid(visible=False, axis="y")
        ax.legend(frameon=False, loc="lower right")

    return single_panel(draw, size=(5.8, 4.0))
