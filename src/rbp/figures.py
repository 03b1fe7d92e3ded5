"""One style for every figure, and one function per kind of figure.

Families differ by marker as well as by colour; the four colours keep at least 3:1 contrast on white and on black,
and stay apart for colour-blind readers. Ink and grid are two fixed colours, so that a page can swap them for its
own and a figure reads in the dark as well (`rbp.page`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, GRID = "#202124", "#d9dbde"

#: family → (colour, marker); families that are not listed get the spare ones in the order of their names
FAMILIES = {
    "GPT-2": ("#D55E00", "s"),
    "OPT": ("#009E73", "^"),
    "Pythia": ("#2A7FC0", "o"),
    "Qwen2.5": ("#B8579A", "D"),
}
SPARE = [("#8A7A00", "v"), ("#6F6FCF", "P"), ("#A0522D", "X"), ("#708090", "*")]

DATASETS = {
    "wikipedia": "Wikipedia",
    "humaneval": "HumanEval",
    "hotpotqa": "HotpotQA",
    "auslegal": "Australian legal",
    "c4": "C4",
    "pile-github": "GitHub (Pile)",
}

LABELS = {"size": "non-embedding parameters S", "cross_entropy": "cross-entropy (nats)"}

_RC = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "xtick.major.width": 0.8,
    "ytick.major.width": 0.8,
    "xtick.minor.width": 0.5,
    "ytick.minor.width": 0.5,
    "xtick.major.size": 4,
    "ytick.major.size": 4,
    "xtick.minor.size": 2.5,
    "ytick.minor.size": 2.5,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "svg.hashsalt": "rbp",  # the same figure gives the same bytes
    "svg.fonttype": "path",
    "figure.constrained_layout.use": True,
}


def use_style() -> None:
    """Make the book's style the current one: seaborn's ticks, with ours on top."""
    sns.set_theme(context="notebook", style="ticks", rc=_RC)


def family_style(family: str, families: Sequence[str] = ()) -> tuple[str, str]:
    """Colour and marker of a family; unknown ones take the spare styles by their place among `families`."""
    if family in FAMILIES:
        return FAMILIES[family]
    unknown = sorted(set(families) - set(FAMILIES)) or [family]
    return SPARE[unknown.index(family) % len(SPARE)]


def dataset_label(dataset: str) -> str:
    """The name of a dataset as a title shows it."""
    return DATASETS.get(dataset, dataset)


def dataset_order(datasets: Iterable[str]) -> list[str]:
    """The datasets, each once: the paper's first and in its order, then others by name."""
    known = list(DATASETS)
    return sorted(set(datasets), key=lambda name: (known.index(name) if name in known else len(known), name))


def neg_log_rbp_label(k: int | None = None) -> str:
    """Axis label of −ln RBP_k, for one k or for any."""
    index = "k" if k is None else f"{{{k}}}"
    return rf"$-\ln\,\mathrm{{RBP}}_{index}$"


@dataclass(frozen=True)
class Panels:
    """A figure of several panels, one for each key: beside each other on a wide page, below each other on a phone.

    `draw(ax, key)` draws one panel. A page shows the panels one by one and lets them flow; files hold them together.
    """

    keys: Sequence[Any]
    draw: Callable[[Axes, Any], None]
    size: tuple[float, float] = (4.6, 3.7)
    columns: int = 2

    def single(self, key: Any) -> Figure:
        """One panel as a figure of its own."""
        use_style()
        figure = Figure(figsize=self.size, layout="constrained")
        self.draw(figure.subplots(), key)
        return figure

    def together(self) -> Figure:
        """All panels in one figure."""
        use_style()
        columns = min(self.columns, len(self.keys))
        rows = -(-len(self.keys) // columns)
        figure = Figure(figsize=(self.size[0] * columns, self.size[1] * rows), layout="constrained")
        axes = np.ravel(figure.subplots(rows, columns, squeeze=False))
        for ax, key in zip(axes, self.keys, strict=False):
            self.draw(ax, key)
        for ax in axes[len(self.keys) :]:
            ax.set_visible(False)
        return figure


def one(draw: Callable[[Axes], None], size: tuple[float, float] = (7.2, 4.2)) -> Figure:
    """A figure of one panel, in the book's style."""
    use_style()
    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots())
    return figure


#: labelled multiples of a power of ten, from many decades in view to a small part of one
_TICKS: tuple[tuple[float, ...], ...] = (
    (1,),
    (1, 3),
    (1, 2, 5),
    (1, 1.5, 2, 3, 4, 5, 6, 8),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9),
    tuple(np.arange(10, 100, 5) / 10),
    tuple(np.arange(100, 1000, 10) / 100),
)


def _count(low: float, high: float, subs: Sequence[float]) -> int:
    """How many of the multiples `subs` of powers of ten lie in view."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    ticks = np.outer(powers, subs)
    return int(np.count_nonzero((ticks >= low) & (ticks <= high)))


def _plain(value: float, _: int) -> str:
    """A tick's number as one writes it: 0.02 or 500, and 3·10⁻⁵ where zeros would have to be counted."""
    if 1e-3 <= value < 1e5:
        return f"{value:g}"
    exponent = int(np.floor(np.log10(value) + 1e-9))
    mantissa = value / 10.0**exponent
    return rf"$10^{{{exponent}}}$" if round(mantissa, 6) == 1 else rf"${mantissa:g}\cdot 10^{{{exponent}}}$"


def log_axis(ax: Axes, which: str, *, plain: bool = True) -> None:
    """Make the axis `which` ("x" or "y") logarithmic, with few labels that read as numbers even within one decade."""
    getattr(ax, f"set_{which}scale")("log")
    axis = ax.xaxis if which == "x" else ax.yaxis
    low, high = sorted(axis.get_view_interval())
    subs = next((subs for subs in _TICKS if _count(low, high, subs) >= 4), _TICKS[-1])
    axis.set_major_locator(ticker.LogLocator(base=10, subs=subs, numticks=12))
    axis.set_minor_locator(
        ticker.LogLocator(subs=range(2, 10), numticks=60) if len(subs) < 13 else ticker.NullLocator()
    )
    axis.set_minor_formatter(ticker.NullFormatter())
    if plain:
        axis.set_major_formatter(ticker.FuncFormatter(_plain))
    else:
        axis.set_major_formatter(ticker.LogFormatterSciNotation())


def label_line_ends(ax: Axes, ends: Mapping[str, tuple[float, float, str]]) -> None:
    """Write each line's name at its right end, moved apart where two would overlap.

    `ends` maps a name to (x, y, colour) in data coordinates. Call it when the limits of the axes are final.
    """
    # In axes coordinates a line of text is as tall as its points over the panel's height.
    height = ax.bbox.height * 72 / ax.figure.dpi
    gap = 11.5 / height
    names = sorted(ends, key=lambda name: ends[name][1])
    to_axes = ax.transData + ax.transAxes.inverted()
    wanted = np.array([to_axes.transform(ends[name][:2])[1] for name in names])
    placed = wanted.copy()
    for _ in range(200):  # push neighbours apart until none overlap
        for i in range(len(placed) - 1):
            overlap = gap - (placed[i + 1] - placed[i])
            if overlap > 1e-9:
                placed[i] -= overlap / 2
                placed[i + 1] += overlap / 2
    for name, y in zip(names, placed, strict=True):
        ax.annotate(
            name,
            xy=(1.02, float(y)),
            xycoords="axes fraction",
            color=ends[name][2],
            va="center",
            fontsize=9.5,
            fontweight="bold",
            annotation_clip=False,
        )


def scaling_panel(
    ax: Axes,
    points: pd.DataFrame,
    fits: Mapping[str, Any],
    *,
    ylabel: str,
    title: str,
) -> None:
    """Measured values against S, by family, with the fitted power laws and the confidence bands of the lines.

    `points` has columns family, size, value; `fits` maps a family to its `PowerLawFit` (families without one show
    their points alone). Both axes are logarithmic, so a power law is a straight line.
    """
    families = list(dict.fromkeys(points.family))
    ends: dict[str, tuple[float, float, str]] = {}
    for family in families:
        colour, marker = family_style(family, families)
        own = points[points.family == family].sort_values("size")
        ax.plot(own["size"], own["value"], marker, color=colour, markeredgecolor="none", label=family, zorder=3)
        last = own.iloc[-1]
        ends[family] = (float(last["size"]), float(last["value"]), colour)
        fit = fits.get(family)
        if fit is not None:
            line = fit.predict(np.geomspace(own["size"].min(), own["size"].max(), 60))
            ax.plot(line["size"], line["value"], "--" if fit.weak else "-", color=colour, lw=1.4)
            ax.fill_between(line["size"], line["mean_low"], line["mean_high"], color=colour, alpha=0.18, lw=0)
            ends[family] = (float(line["size"].iloc[-1]), float(line["value"].iloc[-1]), colour)
    ax.set_xscale("log")
    ax.set_yscale("log")
    # A band of three or four points can be wide beyond use: the points and lines set the view.
    low, high = points["value"].min(), points["value"].max()
    ax.set_ylim(low / (high / low) ** 0.15, high * (high / low) ** 0.15)
    log_axis(ax, "x", plain=False)
    log_axis(ax, "y")
    ax.set_xlabel(LABELS["size"])
    ax.set_ylabel(ylabel)
    ax.set_title(title)
    sns.despine(ax=ax)
    label_line_ends(ax, ends)


def scaling_panels(points: pd.DataFrame, *, ylabel: str, level: float = 0.95) -> Panels:
    """One `scaling_panel` for each dataset of `points` (a measurement table of one metric and one k), fits included.

    A family with too few sizes, or with a value that has no logarithm, is shown without a line.
    """
    from rbp.errors import FitError
    from rbp.scaling import fit_power_law

    def draw(ax: Axes, dataset: str) -> None:
        own = points[points.dataset == dataset]
        fits = {}
        for family, rows in own.groupby("family"):
            try:
                fits[str(family)] = fit_power_law(rows["size"], rows["value"], level=level)
            except FitError:
                continue
        scaling_panel(ax, own, fits, ylabel=ylabel, title=dataset_label(dataset))

    return Panels(dataset_order(points.dataset), draw)
