"""Figures of exponents that change: over training, with D beside S, and with k."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from rbp.book.figure_style import INK, LABELS, Panels, Style, label_line_ends, legend_below, log_axis, power_of_ten
from rbp.paper.curves import curves, ramp
from rbp.paper.exponents import SUBJECTS
from rbp.paper.tries import LIST, TRIES

LINES, OVER_TRAINING = "the lines", "their exponents"
SERIES = (("#2A7FC0", "o"), ("#D55E00", "s"))


def training_panels(snapshots: pd.DataFrame, fits: pd.DataFrame, family: str, steps: Sequence[int]) -> Panels:
    """Left: −ln accuracy of a family's models against S at some steps, with their laws. Right: the exponents, step by
    step.

    snapshots: `exponents.snapshots`; fits: `exponents.by_snapshot`, whose other families are in the right panel too.
    """
    own = snapshots[(snapshots["family"] == family) & (snapshots["accuracy"] > 0)]
    laws = fits[fits["family"] == family].set_index("step")
    there = [step for step in steps if step in laws.index]
    colours = dict(zip(there, ramp(len(there)), strict=True))

    def lines(ax: Axes) -> None:
        ends = {}
        for step, colour in colours.items():
            points = own[own["step"] == step].sort_values("size")
            size = points["size"].to_numpy(float)
            middle = np.exp(np.log(size).mean())
            fit = laws.loc[step]
            law = fit["typical"] * (size / middle) ** -fit["alpha"]
            ax.plot(size, law, color=colour, lw=1.3)
            ax.plot(size, -np.log(points["accuracy"].to_numpy(float)), "o", color=colour, ms=4.5, mew=0)
            ends[f"{step:,}"] = (float(size[-1]), float(law[-1]), colour)
        ax.set_xscale("log")
        ax.set_yscale("log")
        log_axis(ax, "x", plain=False)
        log_axis(ax, "y")
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("−ln accuracy on LAMBADA")
        ax.set_title(f"{family}, after so many steps")
        label_line_ends(ax, ends)
        sns.despine(ax=ax)

    def exponents(ax: Axes) -> None:
        seen = fits[fits["step"] >= 1000]
        for (name, rows), (colour, marker) in zip(seen.groupby("family"), SERIES, strict=False):
            main = name == family
            style: dict[str, Any] = {"lw": 1.4 if main else 0.9, "alpha": 1.0 if main else 0.75}
            ax.plot(rows["step"], rows["alpha"], marker=marker, color=colour, ms=4.5, mew=0, label=name, **style)
            ax.vlines(rows["step"], rows["alpha_low"], rows["alpha_high"], color=colour, **style)
            if main:
                ax.plot(rows["step"], rows["without"], ":", color=colour, lw=1.2, label=f"{name}, smallest left out")
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_xscale("log")
        log_axis(ax, "x")
        ax.set_xlabel("training step")
        ax.set_ylabel("exponent α in S")
        ax.set_title("The exponent over training")
        ax.legend(loc="lower right")
        sns.despine(ax=ax)

    draw = {LINES: lines, OVER_TRAINING: exponents}
    return Panels(list(draw), lambda ax, key: draw[key](ax), size=(4.6, 4.0))


def local_panels(forms: Mapping[str, pd.DataFrame], ratios: Mapping[str, pd.DataFrame]) -> Panels:
    """A panel for each set of runs: the additive form's exponent in S over D, D fixed (lines) or in proportion to S
    (dashes).

    forms: `exponents.local_exponents` by the name of the runs; ratios: `exponents.at_ratios`, points with bars, for
    those that have them.
    """

    def draw(ax: Axes, name: str) -> None:
        table = forms[name]
        sizes = sorted(table["size"].unique())
        for size, colour in zip(sizes, ("#2A7FC0", "#D55E00", "#009E73"), strict=False):
            rows = table[table["size"] == size]
            ax.plot(rows["training_tokens"], rows["at_d"], color=colour, label=f"S = {power_of_ten(size)}, D fixed")
            ax.plot(
                rows["training_tokens"], rows["at_ratio"], "--", color=colour, lw=1.2, label="   D in proportion to S"
            )
        if name in ratios:
            points = ratios[name]
            ax.vlines(points["training_tokens"], points["low"], points["high"], color=INK, lw=0.9)
            label = "lines through runs of one D/S"
            ax.plot(points["training_tokens"], points["estimate"], "D", color=INK, ms=4.5, mew=0, label=label)
        ax.set_xscale("log")
        log_axis(ax, "x", plain=False)
        ax.set_ylim(0, 1.3 * table[["at_d", "at_ratio"]].max().max())  # a bar of few sizes may leave the picture
        ax.set_xlabel("training tokens D")
        ax.set_ylabel(f"exponent in S of {SUBJECTS[str(table['measure'].iloc[0])]}")
        ax.set_title(name)
        legend_below(ax)
        sns.despine(ax=ax)

    return Panels(list(forms), draw, size=(4.6, 4.8))


def tries_panels(table: pd.DataFrame, fitted: int) -> Panels:
    """A panel for each dataset: exponents in S against k, of lists of k and of k tries, with the mixture's of both.

    table: `tries.by_k` of one family.
    """
    names = {LIST: "list of k (RBP)", TRIES: "k tries (pass@k)"}
    mixtures = {LIST: f"mixture, from k = 1 and {fitted}", TRIES: "_"}
    looks = dict(zip(names, SERIES, strict=True))
    styles = {names[way]: Style(*look) for way, look in looks.items()}
    styles |= {mixtures[way]: Style(colour, "", "--") for way, (colour, _) in looks.items()}
    measured = table.assign(line=table["way"].map(names), low=table["alpha_low"], high=table["alpha_high"])
    foretold = table.assign(line=table["way"].map(mixtures), alpha=table["foretold"])
    return curves(
        pd.concat([measured, foretold]), "k", "alpha", labels=("k", "exponent α in S"), styles=styles, band=True,
        ylim=(0, 1.08 * table["alpha_high"].max()), size=(4.6, 4.2),
    )  # fmt: skip
