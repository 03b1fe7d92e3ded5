"""One style for every figure, and what all kinds of figures share: panels, axes, labels.

Families differ by marker as well as by colour; the four colours keep at least 3:1 contrast on white and on black,
and stay apart for colour-blind readers. Ink and grid are two fixed colours, so that a page can swap them for its
own and a figure reads in the dark as well (`companion.execute.page`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from rbp.errors import DataError
from rbp.names import times_power_of_ten

INK, FAINT = "#202124", "#d9dbde"

#: family → (colour, marker); families that are in none get the spare ones in the order of their names
FAMILIES = {
    "GPT-2": ("#D55E00", "s"),
    "OPT": ("#009E73", "^"),
    "Pythia": ("#2A7FC0", "o"),
    "Qwen2.5": ("#B8579A", "D"),
}
#: of the families trained here
LADDERS = {
    "neox": ("#8A7A00", "v"),
    "lstm": ("#6F6FCF", "P"),
}
#: the names that pages give them: whose they are, and how small
OURS = {"neox": "Our Transformer (10k–2.7M)", "lstm": "Our LSTM (10k–1M)"}
LADDERS |= {name: LADDERS[family] for family, name in OURS.items()}
#: of others' training runs
OUTSIDE = {"Llama": ("#C0504D", "<"), "mLSTM": ("#00889A", ">")}
#: of families that no figure of the book has beside all of these
SPARE = [
    *dict.fromkeys(LADDERS.values()),
    ("#708090", "*"),
    ("#9457C0", "s"),
    ("#5C8A2E", "D"),
    ("#C2447A", "^"),
    ("#4E79A7", "v"),
    ("#A0522D", "X"),
]

LABELS = {"size": "non-embedding parameters S", "cross_entropy": "cross-entropy (nats)"}

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")

TEXT = 10.8
"""The smallest text of a figure, in points. A panel 4.6 inches wide shows it with 11 CSS pixels both where two stand
beside each other and on a phone."""

_RC: dict[Any, Any] = {
    **dict.fromkeys(("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"), TEXT),
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(("axes.linewidth", "xtick.major.width", "ytick.major.width"), 0.8),
    **dict.fromkeys(("xtick.minor.width", "ytick.minor.width"), 0.5),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 4),
    **dict.fromkeys(("xtick.minor.size", "ytick.minor.size"), 2.5),
    "font.sans-serif": ["DejaVu Sans"],  # it comes with Matplotlib: the same figures on every machine
    "text.parse_math": False,  # a model's name may hold dollar signs
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # where Matplotlib puts it too, once it has looked at all ticks again in each layout
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "svg.hashsalt": "rbp",  # the same figure gives the same bytes
    "svg.fonttype": "none",  # text is text: it is smaller, and can be searched and read out
    "figure.constrained_layout.use": True,
}


class Style(NamedTuple):
    """The style of a line. marker, dash: "" for none; hollow: its markers."""

    colour: str
    marker: str = "o"
    dash: Any = "-"
    width: float = 1.2
    hollow: bool = False

    @property
    def marks(self) -> dict[str, Any]:
        """Return Matplotlib's options for the markers."""
        edges = {"markerfacecolor": "none", "markeredgewidth": 1} if self.hollow else {"markeredgewidth": 0}
        return {"color": self.colour, "marker": self.marker, "markersize": 5} | edges


def use_style() -> None:
    """Make the book's style the current one: seaborn's ticks, with ours on top."""
    import seaborn as sns  # late: it imports scipy.stats, which a page without figures does without

    sns.set_theme(context="notebook", style="ticks", rc=_RC)


def family_style(family: str, families: Sequence[str] = ()) -> tuple[str, str]:
    """Return a family's colour and marker; unknown ones take the free spare styles, by their place in `families`."""
    styles = FAMILIES | LADDERS | OUTSIDE
    if family in styles:
        return styles[family]
    unknown = sorted(set(families) - set(styles)) or [family]
    taken = [styles[name] for name in families if name in styles]
    free = [style for style in SPARE if style not in taken] or SPARE
    return free[unknown.index(family) % len(free)]


def rbp_label(k: int | None = None) -> str:
    """Write RBP_k as figures do, for one k or for any: "RBP₁₀", "RBPₖ"."""
    return "RBP" + ("ₖ" if k is None else str(k).translate(_SUBSCRIPTS))


def neg_log_rbp_label(k: int | None = None) -> str:
    """Return the axis label of −ln RBP_k, for one k or for any."""
    return f"−ln {rbp_label(k)}"


@dataclass(frozen=True)
class Panels:
    """A figure of several panels, one for each key: beside each other on a wide page, below each other on a phone.

    `draw(ax, key)` draws one panel. A page lets the panels flow; files hold them together, in rows of `columns`.
    Raises DataError without keys: the measurements leave nothing to draw.
    """

    keys: Sequence[Any]
    draw: Callable[[Axes, Any], None]
    size: tuple[float, float] = (4.6, 3.7)
    columns: int = 2

    def __post_init__(self) -> None:
        if not len(self.keys):
            fault = "the measurements leave a figure of this chapter without a point"
            raise DataError(fault, "measurements", "Give more models, more tokens, or other thresholds.")

    def single(self, key: Any) -> Figure:
        """Draw one panel as a figure of its own."""
        use_style()
        figure = Figure(figsize=self.size, layout="constrained")
        self.draw(figure.subplots(), key)
        return figure


#: labelled multiples of a power of ten, from many decades in view to less than one
_TICKS: tuple[tuple[float, ...], ...] = (
    (1,),
    (1, 3),
    (1, 2, 5),
    (1, 1.5, 2, 3, 4, 5, 6, 8),
)


def _count(low: float, high: float, subs: Sequence[float]) -> int:
    """Count the multiples `subs` of powers of ten that lie in view."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = np.outer(powers, subs)
    return int(np.count_nonzero((ticks >= low) & (ticks <= high)))


def power_of_ten(value: float, _: int = 0) -> str:
    """Format a number as a power of ten, as a tick shows it: 10⁷, or 3·10⁷."""
    exponent = int(np.floor(np.log10(value) + 1e-9))
    return times_power_of_ten(f"{value / 10.0**exponent:.6g}", exponent)


def _plain(value: float, place: int) -> str:
    """Format a tick's number as usual: 0.02 or 5,000, and 3·10⁻⁵ where zeros would have to be counted."""
    return f"{value:,g}" if 1e-3 <= value < 1e5 else power_of_ten(value)


def log_axis(ax: Axes, which: str, *, plain: bool = True) -> None:
    """Make the axis `which` ("x" or "y") logarithmic, with few labels that read as numbers even within one decade."""
    getattr(ax, f"set_{which}scale")("log")
    axis = ax.xaxis if which == "x" else ax.yaxis
    low, high = sorted(axis.get_view_interval())
    subs = next((subs for subs in _TICKS if _count(low, high, subs) >= 4), None)
    if subs and high / low > 2.5:
        axis.set_major_locator(ticker.LogLocator(base=10, subs=subs, numticks=9))
        axis.set_minor_locator(ticker.LogLocator(subs=range(2, 10), numticks=60))
    else:  # in so narrow a view the scale is nearly even
        axis.set_major_locator(ticker.MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axis.set_minor_locator(ticker.NullLocator())
    axis.set_minor_formatter(ticker.NullFormatter())
    axis.set_tick_params("minor", label1On=False)  # an empty label would be laid out nonetheless
    axis.set_major_formatter(ticker.FuncFormatter(_plain if plain else power_of_ten))


def label_line_ends(ax: Axes, tips: Mapping[str, tuple[float, float, str]]) -> None:
    """Write each line's name at its right end, after a dash in its colour, moved apart where two would overlap.

    The names are in ink: no colour has enough contrast for text both on white and in the dark.
    `tips` maps a name to (x, y, colour) in data coordinates. Call it when the limits of the axes are final.
    """
    # In axes coordinates a line of text is as tall as its points over the panel's height.
    height = ax.bbox.height * 72 / ax.figure.dpi
    gap = 1.2 * TEXT / height
    names = sorted(tips, key=lambda name: tips[name][1])
    to_axes = ax.transData + ax.transAxes.inverted()
    # a line that leaves the panel has its name at the edge
    placed = np.clip([to_axes.transform(tips[name][:2])[1] for name in names], 0.0, 1.0)
    for _ in range(200):  # push neighbours apart until none overlap
        for i in range(len(placed) - 1):
            overlap = gap - (placed[i + 1] - placed[i])
            if overlap > 1e-9:
                placed[i] -= overlap / 2
                placed[i + 1] += overlap / 2
    for name, y in zip(names, placed, strict=True):
        thick = 3 / height
        corner = (1.01, float(y) - thick / 2)
        ax.add_patch(Rectangle(corner, 0.035, thick, color=tips[name][2], lw=0, transform=ax.transAxes, clip_on=False))
        ax.annotate(
            name,
            xy=(1.06, float(y)),
            xycoords="axes fraction",
            color=INK,
            va="center",
            fontweight="bold",
            annotation_clip=False,
        )


def legend_below(ax: Axes, styles: Mapping[str, Sequence[Any]] | None = None) -> None:
    """Draw a legend below the panel, in as few rows as its names leave room for.

    styles: the fields of a `Style` by name (None: what is drawn, by its labels).
    """
    if styles is None:
        handles = ax.get_legend_handles_labels()[0]
    else:
        handles = [
            Line2D([], [], ls=style.dash, lw=style.width, label=name, **style.marks)
            for name, style in ((name, Style(*style)) for name, style in styles.items())
        ]
    in_rows = legend_columns(handles, ax.figure.bbox.width / ax.figure.dpi)
    ax.figure.legend(handles=handles, loc="outside lower center", ncols=in_rows, columnspacing=1, handlelength=1.8)


def legend_columns(handles: Sequence[Any], inches: float) -> int:
    """Return how many names stand beside each other in a legend, in as few rows as so wide a panel has room for."""
    longest = max((len(str(handle.get_label())) for handle in handles), default=0) + 6  # so wide are handle and space
    rows = -(-len(handles) // max(1, int(12 * inches) // longest))
    return -(-len(handles) // max(rows, 1))
