"""Figures of the law: measurements against size, against the threshold, forecasts, residuals, other curves."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from rbp.book.figure_style import (
    FAINT,
    INK,
    LABELS,
    Panels,
    Style,
    family_style,
    legend_below,
    log_axis,
    neg_log_rbp_label,
    single_panel,
)
from rbp.core.errors import FitError
from rbp.evidence import published
from rbp.paper.curves import curves
from rbp.paper.wording import dataset_label, dataset_order
from rbp.stats.power_law import fit_power_law


def scaling_panels(points: pd.DataFrame, *, ylabel: str = "", level: float = 0.95, panel: str = "dataset") -> Panels:
    """Measured values against S, by dataset, with the power law of each family and the confidence band of its line.

    `points` is a measurement table of one metric and one k, or has the column `panel`. Both axes are logarithmic, so a
    power law is a straight line. Families that cannot be fitted show their points alone; a value of 0 is left out.
    """
    rows, fitted = points[points["value"] > 0], fitted_lines(points, [panel, "family"], level)
    labels = (LABELS["size"], ylabel)
    return curves(
        rows, "size", "value", labels=labels, panel=panel, line="family", fitted=fitted, ends=True, log="xy",
        size=(4.6, 3.7),
    )  # fmt: skip


def fitted_lines(points: pd.DataFrame, by: Sequence[str], level: float = 0.95) -> list[pd.DataFrame]:
    """What `curves` takes as fitted: the power law of each group over its sizes, with its band; none without a fit.

    points: the columns `by`, size and value.
    """
    lines = []
    for group, own in points.groupby(list(by)):
        with suppress(FitError):
            law = fit_power_law(own["size"], own["value"], level=level)
            line = law.predict(np.geomspace(law.size_min, law.size_max, 60))[["size", "value", "mean_low", "mean_high"]]
            line.columns = pd.Index(["size", "value", "low", "high"])
            about: dict[str, Any] = dict(zip(by, group, strict=True))
            lines.append(line.assign(weak=law.weak, **about))
    return lines


def law_shown(points: pd.DataFrame, number: str, *, level: float = 0.95) -> dict[str, Any]:
    """What `Page.figure` takes for the points and the law at one k, as in the paper's figure of this `number`."""
    k = int(points["k"].iloc[0])
    drawn = published.rbp().query(f"source == 'figure {number}'")["k"]  # by the authors
    theirs = points["source"].isin(published.SOURCES).all() and k in set(drawn)
    origin = f" (figure {number} of the paper, recomputed)" if theirs else ""
    zeros = int((points["value"] == 0).sum())
    return {
        "figure": scaling_panels(points, ylabel=neg_log_rbp_label(k), level=level),
        "caption": f"<b>−ln RBP<sub>{k}</sub> against model size</b>{origin}. Each "
        f"family’s power law with its {level:.0%} confidence band; dashed: of four models or fewer."
        + (f" Not shown: {zeros} values of 0, which have no logarithm; their families have no line." if zeros else ""),
        "alt": f"Log-log plot of −ln RBP at k = {k} against model size: points of each family about a straight line",
        "data": points,
    }


SIGNED = FuncFormatter(lambda value, _: f"{value:+g}".replace("-", "−") if value else "0")
SHADES = ("#56B4E9", "#2A7FC0", "#7A4FBF", "#B8579A")  # one k after the other
MARKERS = "osD^"
LINES = [Style(*style) for style in zip(SHADES, MARKERS, strict=True)]


def cut_panels(told: pd.DataFrame) -> Panels:
    """The errors of all forecasts by how many of a family's largest models were hidden, families side by side.

    `told`: `forecasts.every_cut`. Below zero a forecast is too hopeful; within a column k grows from left to right.
    """
    rows = told.assign(off=100 * told["error"])
    ks = sorted(rows["k"].unique())
    cuts = rows.groupby("family")["hidden"].max().sort_values(ascending=False, kind="stable")
    panels: list[list[str]] = []
    for family, columns in cuts.items():  # as many families to a panel as have no more cuts than the first
        if not panels or cuts[panels[-1]].sum() + columns > cuts.iloc[0]:
            panels.append([])
        panels[-1].append(str(family))
    reach = 1.08 * rows["off"].abs().max()

    named = {", ".join(own): own for own in panels}

    def draw(ax: Axes, key: str) -> None:
        ax.axhline(0, color=INK, lw=1)
        labels: list[str] = []
        for family in named[key]:
            colour, marker = family_style(family, sorted(cuts.index))
            for hidden, cell in rows[rows["family"] == family].groupby("hidden"):
                middle = len(labels)
                at = middle + 0.5 * ((cell["k"].map(ks.index) + 0.5) / len(ks) - 0.5)
                for inside in (True, False):
                    some, face = cell["covered"] == inside, colour if inside else "none"
                    ax.plot(at[some], cell["off"][some], marker, color=colour, mfc=face, ms=4.5, mew=0.9, alpha=0.8)
                ax.plot([middle - 0.34, middle + 0.34], [cell["off"].median()] * 2, color=INK, lw=2)
                labels.append(f"{hidden}\n{(cell['off'] < 0).sum()}/{len(cell)}")
            last = len(labels) - 1
            ax.text(
                last - (cuts[family] - 1) / 2, 0.97 * reach, family, color=colour, ha="center", va="top", weight="bold"
            )
        ax.set_xticks(range(len(labels)), labels)
        ax.set_xlim(-0.6, max(len(labels), 3) - 0.4)
        ax.set_ylim(-reach, reach)
        ax.yaxis.set_major_formatter(SIGNED)
        ax.grid(visible=False, axis="x")
        ax.set_xlabel("largest models hidden; forecasts too hopeful")
        ax.set_ylabel("forecast less measured (%)")
        sns.despine(ax=ax)

    return Panels(list(named), draw, size=(4.6, 3.7))


def residual_panels(points: pd.DataFrame) -> Panels:
    """How far each point lies from its power law, by dataset, one line for each k.

    `points` is a table of `cells.residuals` of one family.
    """
    return off_the_line(points, line="k", styles=dict(zip(sorted(points["k"].unique()), LINES, strict=False)))


def off_the_line(rows: pd.DataFrame, *, line: str, styles: Mapping[Any, Style]) -> Panels:
    """How far points lie from their lines (`residual`, a share) against S, by dataset."""
    rows = rows.assign(residual=100 * rows["residual"])
    return curves(
        rows, "size", "residual", labels=(LABELS["size"], "distance from the line (%)"), line=line, styles=styles,
        at=[0], ylim="shared", size=(4.6, 3.7),
    )  # fmt: skip


BEYOND = 100


def shape_figure(points: pd.DataFrame, fits: Mapping[str, Any], *, ylabel: str) -> Figure:
    """The points of one family with several fitted curves, drawn on to BEYOND times the largest size.

    `fits` maps the name of a curve to its `ShapeFit`.
    """
    low, high = points["size"].min(), points["size"].max()
    sizes = np.geomspace(low, high * BEYOND, 200)
    styles = ["-", (0, (6, 2)), (0, (2, 1.5)), "-."]

    def draw(ax: Axes) -> None:
        ax.axvspan(high, high * BEYOND, color=FAINT, alpha=0.5, lw=0)
        ends = {}
        for i, (name, fit) in enumerate(fits.items()):
            value = np.maximum(fit.predict(sizes), points["value"].min() / 10)
            colour = [INK, "#D55E00", "#2A7FC0", "#009E73"][i % 4]
            ax.plot(sizes, value, ls=styles[i % 4], color=colour, lw=1.8, label=name)
            ends[name] = value[-1]
        ax.plot(points["size"], points["value"], "o", color=INK, ms=6, zorder=3, label="measured")
        ax.set_xlim(low / 1.5, high * BEYOND)
        ax.set_yscale("log")
        log_axis(ax, "x", plain=False)
        ax.set_ylim(max(min(ends.values()), points["value"].min() / 3) / 1.1, points["value"].max() * 1.1)
        log_axis(ax, "y")
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel(ylabel)
        ax.annotate(
            "no model here", (high * BEYOND**0.5, 0.96), xycoords=("data", "axes fraction"), ha="center", va="top"
        )
        ax.legend(loc="lower left")
        sns.despine(ax=ax)

    return single_panel(draw)


Quantity = Literal["alpha", "r_squared"]

_R_SQUARED_TICKS = (0, 0.5, 0.8, 0.9, 0.97, 0.99, 0.997, 0.999)
_GAP = 30  # no line is drawn across a wider gap in k: what happens within is not known
_DODGE = 1.045  # neighbours at one k stand this factor apart, so that their intervals do not hide each other


def against_k(
    fits: pd.DataFrame,
    quantity: Quantity,
    *,
    printed: pd.DataFrame | None = None,
    published: pd.DataFrame | None = None,
) -> Panels:
    """The exponent α, or R², against k: one panel for each dataset, a colour and a marker for each family.

    `fits` comes from `subsets.fit_thresholds`. Fits of all models are filled and joined by a solid line; α has
    intervals, and the common models are hollow. `printed` (dataset, family, k and `quantity`) adds crosses;
    `published` (the same columns) adds a broad grey line, the paper's curve. Panels are limited to where the exponents
    lie: an interval may leave the view.
    """
    families = list(dict.fromkeys(fits["family"]))

    def draw(ax: Axes, dataset: str) -> None:
        own, cells, curve = (_of(table, dataset, quantity) for table in (fits, printed, published))
        curve = curve.sort_values("k")
        ax.plot(curve["k"], _height(curve[quantity], quantity), color="#8a8d91", lw=3.5, alpha=0.5, zorder=1.5)
        styles = {family: family_style(family, families) for family in families if family in set(own["family"])}
        for place, (family, style) in enumerate(styles.items()):
            dodge = _DODGE ** (place - (len(styles) - 1) / 2)
            _family(ax, own[own["family"] == family], quantity, style, dodge)
            there = cells[cells["family"] == family]
            ax.plot(there["k"] * dodge, _height(there[quantity], quantity), "x", color=style[0], ms=5, zorder=3)
        _axes(ax, pd.concat([table[["k", quantity]].astype(float) for table in (own, cells, curve)]), quantity)
        ax.set_title(dataset_label(dataset))
        legend_below(ax, styles)

    return Panels(dataset_order(fits["dataset"]), draw, size=(4.6, 4.1))


def against_k_shown(
    fits: pd.DataFrame, quantity: Quantity, printed: pd.DataFrame, curves: pd.DataFrame, *, level: float = 0.95
) -> dict[str, Any]:
    """What `Page.figure` takes for `against_k`, with the cells of Table 1 and the curves of figure 6 (with alpha)."""
    drawn_there, printed_there = (set(fits["dataset"]) & set(table["dataset"]) for table in (curves, printed))
    theirs = "Crosses: cells of Table 1 without points to refit. " if printed_there else ""
    theirs += "Grey: the paper’s curve for Pythia. " if drawn_there else ""
    crosses = printed[printed["k"].isin([500, 2500, 10000]) & (printed["r_squared"] < 1)]
    name, number = {"alpha": ("The exponent α", "6b"), "r_squared": ("R²", "6a")}[quantity]
    origin = f" (figure {number} of the paper, with every family here)" if drawn_there else ""
    own = {
        "alpha": f"Bars: {level:.0%} intervals, which may leave the view. Hollow: models measured at every k.",
        "r_squared": "Dashed: R² = 0.9. The axis is spread towards 1.",
    }[quantity]
    seen = {
        "alpha": "The exponent rises with k for every family up to k = 100, at different heights on each dataset",
        "r_squared": "R² lies near 0.99 for k up to 100 and falls at large k, for GPT-2 first",
    }[quantity]
    return {
        "figure": against_k(fits.dropna(subset="alpha"), quantity, printed=crosses, published=curves),
        "caption": f"<b>{name} against k</b>{origin}. {theirs}{own}",
        "alt": seen,
        "data": fits,
    }


def _of(table: pd.DataFrame | None, dataset: str, quantity: Quantity) -> pd.DataFrame:
    if table is None:
        return pd.DataFrame({"family": [], "k": [], quantity: []})
    return table[table["dataset"] == dataset].dropna(subset=[quantity])


def _height(value: "pd.Series[float]", quantity: Quantity) -> "pd.Series[float]":
    """R² is drawn as 1 − R² on a logarithmic axis upside down, which spreads what lies close to 1."""
    return value if quantity == "alpha" else 1 - value


def _family(ax: Axes, own: pd.DataFrame, quantity: Quantity, style: tuple[str, str], dodge: float) -> None:
    colour, marker = style
    every, common = (own[own["models"] == models].sort_values("k") for models in ("all", "common"))
    x, height = every["k"].to_numpy(dtype=float) * dodge, _height(every[quantity], quantity)
    for stretch in np.split(np.arange(x.size), np.flatnonzero(x[1:] > _GAP * x[:-1]) + 1):
        ax.plot(x[stretch], height.iloc[stretch], color=colour, lw=1.3)
    ax.plot(x, height, marker, color=colour, mew=0, ms=5, zorder=3)
    if quantity == "alpha":  # a family of so few sizes has intervals of R² that fill the panel
        ax.vlines(x, every["alpha_low"], every["alpha_high"], color=colour, lw=1, alpha=0.55, zorder=2)
        ax.plot(common["k"] * dodge, common["alpha"], marker, color=colour, mfc="none", mew=1, ms=3.5, zorder=3)


def _axes(ax: Axes, shown: pd.DataFrame, quantity: Quantity) -> None:
    if quantity == "alpha":
        low, high = shown[quantity].min(), shown[quantity].max()
        margin = 0.12 * max(high - low, 0.1)
        ax.set_ylim(min(low - margin, 0), high + margin)
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_ylabel("exponent α")
    else:
        ax.set_yscale("log")
        ax.set_ylim(1, 6e-4)
        ax.yaxis.set_major_locator(ticker.FixedLocator([1 - tick for tick in _R_SQUARED_TICKS]))
        ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{1 - value:.3g}"))
        ax.yaxis.set_minor_locator(ticker.NullLocator())
        ax.axhline(0.1, color=INK, lw=0.9, ls=(0, (5, 3)), zorder=1)
        ax.set_ylabel("R² (axis spread towards 1)")
    ax.set_xlim(shown["k"].min() / 1.6, shown["k"].max() * 1.6)
    log_axis(ax, "x", plain=False)
    ax.set_xlabel("threshold k")
    sns.despine(ax=ax)
