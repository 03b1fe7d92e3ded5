"""The front page's charts: pictures, and what book/_static/living.js needs to make charts of them that move.

Each function gives what `Page.figure` takes. The sentence is in `see`, the curves at one cross-entropy in
`cross_entropy.paths`, where their numbers are.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rbp.book.figure_style import FAMILIES, INK, LADDERS, label_line_ends, log_axis, neg_log_rbp_label, single_panel
from rbp.core.arrays import Reals
from rbp.evidence import select
from rbp.evidence.counts import Counts
from rbp.paper.families import TRANSFORMER, points
from rbp.paper.training.others import by_snapshot
from rbp.stats.power_law import PowerLawFit, fit_power_law

SIZES = "model size S (parameters)"
FAMILY, TEXT = "Pythia", "wikipedia"  # what the charts begin with
HIDDEN = 2  # of its largest models
ROOM = 1.15  # what is in sight beyond the points, as a factor


def _cells(table: pd.DataFrame, ks: Sequence[int]) -> pd.DataFrame:
    found = select(table, dataset=TEXT, metric="neg_log_rbp", k=ks)
    return found.sort_values(["family", "k", "size"], ignore_index=True)[["family", "model", "size", "k", "value"]]


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
    ends = np.array([min(sizes), max(sizes)], dtype=float)
    law: Reals = fit.predict(ends)["value"].to_numpy()
    ax.plot(ends, law, color=colour, lw=1.8)
    return law


def line_shown(table: pd.DataFrame, k: int = 1) -> dict[str, Any]:
    """The paper's models on one text, and the line through one family."""
    rows, label = _cells(table, [k]), neg_log_rbp_label(k)
    view, own = _view(rows["size"], rows["value"]), rows[rows["family"] == FAMILY]
    fit = fit_power_law(own["size"], own["value"])

    def draw(ax: Axes) -> None:
        for family, each in rows.groupby("family"):
            colour, marker = FAMILIES[str(family)]
            ax.plot(each["size"], each["value"], marker, color=colour, ms=6, mew=0, label=family)
        _axes(ax, label, view)
        _law(ax, fit, own["size"].tolist(), FAMILIES[FAMILY][0])
        ax.legend(loc="lower left")
        ax.set_title(f"{FAMILY}: α = {fit.alpha:.3f}, R² = {fit.r_squared:.3f}")

    return {
        "figure": single_panel(draw, size=(4.6, 3.4)),
        "caption": f"<b>The paper’s {len(rows)} models on Wikipedia.</b> Each family has a line of its own.",
        "alt": f"{label} falls with model size, on nearly straight lines, one for each family",
        "data": rows,
        "living": {
            "label": label,
            "family": FAMILY,
            "styles": FAMILIES,
            "view": view,
            "points": rows.to_numpy().tolist(),
        },
    }


def hide_shown(table: pd.DataFrame, ks: Sequence[int] = (1, 10, 100)) -> dict[str, Any]:
    """One family without its largest models: the line through the others, and how far it misses these."""
    rows, label = _cells(table, ks), neg_log_rbp_label(ks[0])
    own = rows[(rows["family"] == FAMILY) & (rows["k"] == ks[0])]
    seen, hidden = own.iloc[:-HIDDEN], own.iloc[-HIDDEN:]
    fit = fit_power_law(seen["size"], seen["value"])
    forecast = fit.predict(hidden["size"])["value"].to_numpy()
    error = 100 * (forecast[-1] / hidden["value"].iloc[-1] - 1)

    def draw(ax: Axes) -> None:
        colour, marker = FAMILIES[FAMILY]
        ax.vlines(hidden["size"], hidden["value"], forecast, color=colour, lw=2)
        ax.plot(seen["size"], seen["value"], marker, color=colour, ms=6, mew=0, label="seen")
        ax.plot(hidden["size"], hidden["value"], marker, color=colour, mfc="none", ms=6, mew=1.5, label="hidden")
        _axes(ax, label, _view(own["size"], [*own["value"], *forecast]))
        _law(ax, fit, own["size"].tolist(), colour)
        ax.legend(loc="lower left")
        ax.set_title(f"{FAMILY}’s largest: forecast {error:+.1f}%".replace("-", "−"))

    return {
        "figure": single_panel(draw, size=(4.6, 3.4)),
        "caption": "<b>What the smaller models promise.</b> The line is fitted to the full marks. Below a hollow mark "
        "it is too hopeful, above it too gloomy.",
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


def longer_shown(snapshots: pd.DataFrame, texts: Sequence[Counts], k: int = 1) -> dict[str, Any]:
    """A family's line after more and more tokens of training.

    snapshots: of `training.others`, whole last words; texts: what our own models make of each text.
    """
    series = [_of_snapshots(snapshots), _of_ladder(texts, k)]
    first = series[0]
    frames, sizes = first["frames"], np.array(first["sizes"])
    drawn = [frames[i] for i in (first["start"], len(frames) // 3, len(frames) - 1)]

    def draw(ax: Axes) -> None:
        colour, marker = first["style"]
        ends = {}
        for frame, strength in zip(drawn, (0.35, 0.6, 1), strict=True):
            law = frame["height"] * (sizes / frame["centre"]) ** -frame["alpha"]
            ax.plot(sizes, law, color=colour, lw=1.8, alpha=strength)
            ax.plot(sizes, frame["values"], marker, color=colour, ms=6, mew=0, alpha=strength)
            ends[f"α = {frame['alpha']:.2f}"] = (sizes[-1], law[-1], INK)
        _axes(ax, first["label"], first["view"])
        ax.set_ylim(top=max(drawn[0]["values"]) * ROOM)
        ax.set_title("After " + ", ".join(f"{frame['tokens'] / 1e9:.0f}" for frame in drawn) + " billion tokens")
        label_line_ends(ax, ends)

    rows = [
        {"series": each["name"], "tokens": frame["tokens"], "model": model, "size": size, "value": value}
        | {"alpha": frame["alpha"]}
        for each in series
        for frame in each["frames"]
        for model, size, value in zip(each["models"], each["sizes"], frame["values"], strict=True)
    ]
    return {
        "figure": single_panel(draw, size=(4.6, 3.4)),
        "caption": "<b>The same models, trained longer.</b> Pythia’s guess the last word of passages (LAMBADA): whole "
        "words, not RBPₖ.",
        "alt": "Lines of −ln of the share of words guessed against size: they grow steeper as training goes on",
        "data": pd.DataFrame(rows),
        "living": {"series": series},
    }


def _of_snapshots(table: pd.DataFrame) -> dict[str, Any]:
    own = table[table["family"] == FAMILY]
    about = own.drop_duplicates("model").sort_values("size")
    frames = []
    for law in by_snapshot(own).to_dict("records"):
        at = own[own["step"] == law["step"]].sort_values("size")
        values = -np.log(at["accuracy"].to_numpy(float))
        frame = {"tokens": int(law["training_tokens"]), "alpha": law["alpha"], "height": law["typical"]}
        frames.append(frame | {"centre": _middle(at["size"]), "values": values.tolist()})
    start = next(i for i, frame in enumerate(frames) if frame["alpha"] > 0)  # before, the models know next to nothing
    series = _series(f"{FAMILY}: whole last words", "−ln share of words guessed", FAMILIES[FAMILY], about, frames)
    return series | {"start": start}


def _of_ladder(texts: Sequence[Counts], k: int) -> dict[str, Any]:
    table = points(texts, [k], TRANSFORMER)
    own = table[(table["dataset"] == TEXT) & (table["metric"] == "neg_log_rbp")].sort_values("size")
    frames = []
    for tokens, at in own.groupby("training_tokens"):
        fit, centre = fit_power_law(at["size"], at["value"]), _middle(at["size"])
        height = float(fit.predict([centre])["value"].iloc[0])
        frame = {"tokens": int(str(tokens)), "alpha": fit.alpha, "height": height, "centre": centre}
        frames.append(frame | {"values": at["value"].tolist()})
    about = own[own["training_tokens"] == own["training_tokens"].max()]
    name = f"Our small transformers: {neg_log_rbp_label(k)} on Wikipedia"
    return _series(name, neg_log_rbp_label(k), LADDERS[TRANSFORMER], about, frames) | {"start": 0}


def _middle(sizes: "pd.Series[int]") -> float:
    return float(np.exp(np.log(sizes.to_numpy(float)).mean()))


def _series(
    name: str, label: str, style: tuple[str, str], about: pd.DataFrame, frames: list[dict[str, Any]]
) -> dict[str, Any]:
    values = [value for frame in frames for value in frame["values"]]
    laws = [frame["height"] * (size / frame["centre"]) ** -frame["alpha"] for frame in frames for size in about["size"]]
    return {
        "name": name,
        "label": label,
        "style": style,
        "models": about["model"].tolist(),
        "sizes": about["size"].tolist(),
        "view": _view(about["size"], [*values, *laws]),
        "frames": frames,
    }
