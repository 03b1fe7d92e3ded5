"""How ranks are shown: a text coloured by the rank of each token, and RBP_k with how sure it is."""

import html

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from rbp.figures.style import FAMILIES, Panels

#: the upper end of each class of ranks, its name, and how strongly it is coloured: the page's ink reads on each
CLASSES = ((1, "1", 0.0), (10, "2–10", 0.14), (100, "11–100", 0.3), (np.inf, "above 100", 0.5))
_COLOUR = "213, 94, 0"
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
    return f"{_TOKEN};background:rgba({_COLOUR},{strength:g})"


def curve(every: pd.DataFrame, some: pd.DataFrame) -> Panels:
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
        ax.set_ylabel("RBP$_k$: share of tokens with rank ≤ k")
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
        (shares if key == "RBP_k" else widths)(ax)
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.set_xlabel("threshold k")

    return Panels(("RBP_k", "width of the intervals"), draw)
