"""Figures whose horizontal axis is the threshold k (figure 6 of the paper)."""

from typing import Literal

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import ticker
from matplotlib.axes import Axes

from rbp.figures.style import INK, Panels, families_legend, family_style, log_axis
from rbp.names import dataset_label, dataset_order

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

    `fits` comes from `scaling.fit_thresholds`: fits of all models are filled and joined by a solid line, with their
    intervals; fits of the common models are hollow and joined by a dotted one. `printed` (dataset, family, k and
    `quantity`) adds crosses; `published` (the same columns) adds a thin line in ink, the paper's curve.
    Panels are limited to where the exponents lie: an interval may leave the view.
    """
    families = list(dict.fromkeys(fits["family"]))

    def draw(ax: Axes, dataset: str) -> None:
        own, cells, curve = (_of(table, dataset, quantity) for table in (fits, printed, published))
        curve = curve.sort_values("k")
        ax.plot(curve["k"], _height(curve[quantity], quantity), color=INK, lw=0.9, zorder=1.5)
        styles = {family: family_style(family, families) for family in families if family in set(own["family"])}
        for place, (family, style) in enumerate(styles.items()):
            dodge = _DODGE ** (place - (len(styles) - 1) / 2)
            _family(ax, own[own["family"] == family], quantity, style, dodge)
            there = cells[cells["family"] == family]
            ax.plot(there["k"] * dodge, _height(there[quantity], quantity), "x", color=style[0], ms=5, zorder=3)
        _axes(ax, pd.concat([table[["k", quantity]].astype(float) for table in (own, cells, curve)]), quantity)
        ax.set_title(dataset_label(dataset))
        families_legend(ax, styles)

    return Panels(dataset_order(fits["dataset"]), draw, size=(4.6, 4.1))


def _of(table: pd.DataFrame | None, dataset: str, quantity: Quantity) -> pd.DataFrame:
    if table is None:
        return pd.DataFrame({"family": [], "k": [], quantity: []})
    return table[table["dataset"] == dataset].dropna(subset=[quantity])


def _height(value: "pd.Series[float]", quantity: Quantity) -> "pd.Series[float]":
    """R² is drawn as 1 − R² on a logarithmic axis upside down, which spreads what lies close to 1."""
    return value if quantity == "alpha" else 1 - value


def _family(ax: Axes, own: pd.DataFrame, quantity: Quantity, style: tuple[str, str], dodge: float) -> None:
    colour, marker = style
    for models, line, face, size in (("common", ":", "none", 3.5), ("all", "-", colour, 5)):
        fits = own[own["models"] == models].sort_values("k")
        height = _height(fits[quantity], quantity)
        x = fits["k"].to_numpy(dtype=float) * dodge
        for stretch in np.split(np.arange(x.size), np.flatnonzero(x[1:] > _GAP * x[:-1]) + 1):
            ax.plot(x[stretch], height.iloc[stretch], line, color=colour, lw=1.1)
        ax.plot(x, height, marker, color=colour, mfc=face, mew=1 if face == "none" else 0, ms=size, zorder=3)
        if models == "all":
            low, high = (_height(fits[f"{quantity}_{end}"], quantity) for end in ("low", "high"))
            ax.vlines(x, low, high, color=colour, lw=1, alpha=0.55, zorder=2)


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
