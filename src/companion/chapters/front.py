"""The front page's charts: pictures, and the data with which book/_static/living.js makes one of them interactive.

Each function gives what `Page.figure` takes. The sentence is in `see`, the curves at one cross-entropy in
`cross_entropy.paths`, where their numbers are.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from companion.chapters.training import fit_snapshots
from companion.plots import single_panel
from rbp.arrays import Reals
from rbp.figures.curves import shades
from rbp.figures.style import FAMILIES, INK, label_line_ends, log_axis, neg_log_rbp_label
from rbp.laws.power import PowerLawFit, fit_power_law
from rbp.measurements import select

SIZES = "model size S (parameters)"
FAMILY, TEXT = "Pythia", "wikipedia"  # what the charts begin with
HIDDEN = 2  # of its largest models
ROOM = 1.15  # what is in sight beyond the points, as a factor


def _cells(table: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    rows = select(table, dataset=TEXT, metric="neg_log_rbp", k=ks)
    return rows.sort_values(["family", "k", "size"], ignore_index=True)[["family", "model", "size", "k", "value"]]


def _view(sizes: Any, values: Any) -> dict[str, list[float]]:
    sizes, values = np.asarray(sizes, dtype=float), np.asarray(values, dtype=float)
    return {
        "sizes": [sizes.min() / 1.6, sizes.max() * 1.6],
        "values": [values.min() / ROOM, values.max() * ROOM],
    }


def _axes(ax: Axes, label: str, view: dict[str, list[float]]) -> None:
    ax.set_xlim(*view["sizes"])
    ax.set_ylim(*view["values"])
    log_axis(ax, "x", plain=False)
    log_axis(ax, "y")
    ax.set_xlabel(SIZES)
    ax.set_ylabel(label)


def _law(ax: Axes, fit: PowerLawFit, sizes: Sequence[float], colour: str) -> Reals:
    span = np.array([min(sizes), max(sizes)], dtype=float)
    law: Reals = fit.predict(span)["value"].to_numpy()
    ax.plot(span, law, color=colour, lw=1.8)
    return law


def line_figure(table: pd.DataFrame, k: int = 1) -> dict[str, Any]:
    """Plot the paper's models on one text, with the line through one family."""
    rows, label = _cells(table, [k]), neg_log_rbp_label(k)
    view, family_points = _view(rows["size"], rows["value"]), rows[rows["family"] == FAMILY]
    fit = fit_power_law(family_points["size"], family_points["value"])

    def draw(ax: Axes) -> None:
        for family, models in rows.groupby("family"):
            colour, marker = FAMILIES[str(family)]
            ax.plot(models["size"], models["value"], marker, color=colour, ms=6, mew=0, label=family)
        _axes(ax, label, view)
        _law(ax, fit, family_points["size"].tolist(), FAMILIES[FAMILY][0])
        ax.legend(loc="lower left")
        ax.set_title(f"{FAMILY}: α = {fit.alpha:.3f}, R² = {fit.r_squared:.3f}")

    return {
        "figure": single_panel(draw, size=(4.6, 3.4)),
        "caption": f"<b>The paper’s {len(rows)} models on Wikipedia.</b> Each family has a line of its own; "
        f"{FAMILY}’s is drawn.",
        "alt": f"{label} falls with model size, on nearly straight lines, one for each family",
        "data": rows,
    }


def hide_figure(table: pd.DataFrame, ks: Sequence[int] = (1, 10, 100)) -> dict[str, Any]:
    """Plot one family without its largest models: the line through the others, and how far it misses them."""
    rows, label = _cells(table, ks), neg_log_rbp_label(ks[0])
    family_points = rows[(rows["family"] == FAMILY) & (rows["k"] == ks[0])]
    seen, hidden = family_points.iloc[:-HIDDEN], family_points.iloc[-HIDDEN:]
    fit = fit_power_law(seen["size"], seen["value"])
    forecast = fit.predict(hidden["size"])["value"].to_numpy()
    error = 100 * (forecast[-1] / hidden["value"].iloc[-1] - 1)

    def draw(ax: Axes) -> None:
        colour, marker = FAMILIES[FAMILY]
        ax.vlines(hidden["size"], hidden["value"], forecast, color=colour, lw=2)
        ax.plot(seen["size"], seen["value"], marker, color=colour, ms=6, mew=0, label="seen")
        ax.plot(hidden["size"], hidden["value"], marker, color=colour, mfc="none", ms=6, mew=1.5, label="hidden")
        _axes(ax, label, _view(family_points["size"], [*family_points["value"], *forecast]))
        _law(ax, fit, family_points["size"].tolist(), colour)
        ax.legend(loc="lower left")
        ax.set_title(f"{FAMILY}’s largest: forecast {error:+.1f}%".replace("-", "−"))

    return {
        "figure": single_panel(draw, size=(4.6, 3.4)),
        "caption": "<b>A forecast of the largest models.</b> The line is fitted to the full marks. Where it passes "
        "below a hollow mark, the forecast is too optimistic, above it too pessimistic.",
        "alt": f"A line through the smaller models of {FAMILY} passes below its {HIDDEN} largest",
        "data": rows,
        "living": {
            "family": FAMILY,
            "k": ks[0],
            "ks": list(ks),
            "hidden": HIDDEN,
            "styles": FAMILIES,
            "points": rows.to_numpy().tolist(),
        },
    }


def longer_figure(snapshots: pd.DataFrame) -> dict[str, Any]:
    """Plot a family's line after more and more tokens of training; snapshots: `read_snapshots`."""
    points = snapshots[snapshots["family"] == FAMILY].sort_values("size")
    laws = fit_snapshots(points)
    start = int((laws["alpha"] > 0).to_numpy().argmax())  # before, the models know next to nothing
    plotted = laws.iloc[[start, len(laws) // 3, -1]]
    table = points.merge(laws[["step", "alpha"]], on="step")  # without those that guess no word, whose −ln is infinite
    table = table.assign(value=-np.log(table["accuracy"].astype(float)))
    sizes, label = np.unique(points["size"].to_numpy(float)), "−ln share of last words guessed"
    colours = shades(plotted["step"])

    def draw(ax: Axes) -> None:
        marker, labels = FAMILIES[FAMILY][1], {}
        for law in plotted.to_dict("records"):
            points_of_step, colour = table[table["step"] == law["step"]], colours[law["step"]]
            line = law["prefactor"] * sizes ** -law["alpha"]
            ax.plot(sizes, line, color=colour, lw=1.8)
            ax.plot(points_of_step["size"], points_of_step["value"], marker, color=colour, ms=6, mew=0)
            labels[f"{law['training_tokens'] / 1e9:.0f} B: α = {law['alpha']:.2f}"] = (sizes[-1], line[-1], INK)
        seen = table[table["step"].isin(plotted["step"])]
        _axes(ax, label, _view(sizes, [*seen["value"], *(end for _, end, _ in labels.values())]))
        ax.set_title(f"{FAMILY}, by billions (B) of tokens")
        label_line_ends(ax, labels)

    return {
        "figure": single_panel(draw, size=(4.6, 3.4)),
        "caption": f"<b>The same models, trained longer.</b> Each line is {FAMILY} after so many tokens of "
        "training. It guesses the last words of passages (LAMBADA): whole words, so this is not RBPₖ.",
        "alt": "Lines of −ln of the share of words guessed against size: they grow steeper as training goes on",
        "data": table[["training_tokens", "model", "size", "value", "alpha"]].sort_values(["training_tokens", "size"]),
    }
