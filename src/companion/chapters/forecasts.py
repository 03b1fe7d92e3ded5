"""Chapter "Forecasts": hidden models at every cut, the same for cross-entropy, other curves, and the explorer."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import t as student

from companion.execute.page import data_within
from companion.plots import SIGNED, single_panel
from companion.stats import cells
from companion.stats.shapes import SHAPES, ShapeFit, fit_shape
from rbp.arrays import Reals
from rbp.errors import FitError
from rbp.figures.curves import SCALE
from rbp.figures.style import FAINT, INK, LABELS, Panels, family_style, label_line_ends, log_axis
from rbp.figures.wording import DATASETS, FAMILIES, cell_label, dataset_order
from rbp.laws.offset import extended
from rbp.measurements import Source
from rbp.report.display import shown

SCORE = 35
"""The mean interval score of a good cut: see `score_intervals`."""


# ── Hidden models, forecast at every cut


def forecast_every_cut(points: pd.DataFrame, *, level: float) -> pd.DataFrame:
    """Hide the largest model of each family, then the two largest, and so on, and forecast them from the others.

    Of each dataset, k and family of four sizes or more; at least three sizes are fitted. Values of 0, which have no
    logarithm, and cuts whose values do not vary are left out. Columns CELL, seen (models fitted), hidden (models that
    are not), model, size, ahead (times the largest size fitted), value (measured), predicted, low, high, error
    (predicted/value − 1), covered, score (`score_intervals`); and of E + A·S^(−α), fitted to the same models where they
    are four sizes: floor (E), floored (the forecast), floor_error, which are NaN elsewhere. Raises FitError where no
    cell has four sizes.
    """
    parts: list[pd.DataFrame] = []
    for key, cell in points[points["value"] > 0].groupby(cells.CELL):
        labels: dict[str, Any] = dict(zip(cells.CELL, key, strict=True))
        cell = cell.sort_values(["size", "model"])
        for largest in sorted(set(cell["size"]))[2:-1]:
            small, large = cell[cell["size"] <= largest], cell[cell["size"] > largest]
            with suppress(FitError):  # values that do not vary have no law
                parts.append(_forecast(small, large, level).assign(**labels, seen=len(small), hidden=len(large)))
    if not parts:
        raise FitError("no family has enough points", "measurements", "Give at least four sizes of one family.")
    rows = pd.concat(parts, ignore_index=True)
    value, low, high = (rows[name].to_numpy(np.float64) for name in ("value", "low", "high"))
    rows = rows.assign(floor_error=rows["floored"] / value - 1, score=score_intervals(value, low, high, level))
    names = ["model", "size", "ahead", "value", "floor", "floored", "predicted", "low", "high", *cells.CELL]
    return rows[[*names, "seen", "hidden", "error", "floor_error", "covered", "score"]]


def _forecast(small: pd.DataFrame, large: pd.DataFrame, level: float) -> pd.DataFrame:
    floor, floored = np.nan, np.full(len(large), np.nan)
    if small["size"].nunique() > 3:
        floor, floored = extended(small["size"], small["value"], large["size"])
    return cells.forecast(small, large, level=level).assign(floor=floor, floored=floored)


def score_intervals(value: Reals, low: Reals, high: Reals, level: float) -> Reals:
    """Score intervals of confidence `level` by the measured value, in per cent of it; less is better.

    Of the logarithms, the width plus 2/(1 − level) times the distance of the value from the interval (Gneiting and
    Raftery, 2007, equation 43). A wide interval scores badly although it covers. An exact interval of normal errors
    whose median size is 5% scores 35 on average, at 95%.
    """
    outside = np.maximum(np.log(low / value), 0) + np.maximum(np.log(value / high), 0)
    scores: Reals = 100 * (np.log(high / low) + 2 / (1 - level) * outside)
    return scores


def summarize_cuts(forecasts: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Summarize `forecast_every_cut` by some columns.

    Columns `by`, ahead (the most times the largest size fitted), count, covered (inside their interval), optimistic
    (−ln RBP_k forecast too low); medians in per cent: error_signed, error_median (of its size), width_median (of the
    interval, relative to the forecast); score (mean).
    Of the law with a floor: floored, floor_optimistic (forecasts, and those too low), floor_median (of the error's
    size, in per cent), floor_zero (lines whose best floor is 0).
    """
    rows = forecasts.assign(
        optimistic=forecasts["error"] < 0,
        error_signed=100 * forecasts["error"],
        error=100 * forecasts["error"].abs(),
        width=100 * (forecasts["high"] - forecasts["low"]) / forecasts["predicted"],
        floor_optimistic=forecasts["floor_error"] < 0,
        floor_error=100 * forecasts["floor_error"].abs(),
        floor_zero=(forecasts["floor"] == 0) & ~forecasts.duplicated([*cells.CELL, "seen"]),
    )
    return rows.groupby(list(by), as_index=False, sort=True).agg(
        ahead=("ahead", "max"),
        count=("covered", "size"),
        covered=("covered", "sum"),
        optimistic=("optimistic", "sum"),
        error_signed=("error_signed", "median"),
        error_median=("error", "median"),
        width_median=("width", "median"),
        score=("score", "mean"),
        floored=("floor_error", "count"),
        floor_optimistic=("floor_optimistic", "sum"),
        floor_median=("floor_error", "median"),
        floor_zero=("floor_zero", "sum"),
    )


def write_answers(
    every: pd.DataFrame, hidden: pd.DataFrame, control: pd.DataFrame, *, holdout: int, holdout_few: int, level: float
) -> list[str]:
    """Say how right the forecasts of `forecast_every_cut` are, and those of cross-entropy (`forecast_cross_entropy`).

    hidden: of `cells.forecasts`, which may have hidden fewer models than `holdout` or `holdout_few` name.
    """
    total = summarize_cuts(every.assign(all="all"), ["all"]).iloc[0]
    count = f"of {total['count']:,} cases"
    text = f"Forecasts of hidden models are too optimistic in {total['optimistic']:,} {count}, and inside their "
    text += f"interval at {level:.4g} in {total['covered']:,} {count}. The median error is "
    sentences = [f"{text}{total['error_median']:.1f}%."]
    if values := control_statistics(control):
        error = 100 * control["error"].abs().median()
        text = f"Where cross-entropy is known, the law misses it by {values['control.error_median']:.1f}%, and "
        sentences.append(f"{text}−ln RBPₖ by {error:.1f}% (medians; hidden models: {values['control.models']}).")
    lines = hidden.groupby(cells.CELL).agg(held=("n", "size"), fitted=("n", "first"))
    wanted = np.where(lines.sum(axis=1) <= cells.FEW, holdout_few, holdout)
    if fewer := int((lines["held"] < wanted).sum()):
        sentences.append(
            f"For this comparison fewer models were hidden than holdout or holdout_few name in {fewer} of {len(lines)} "
            "lines: three sizes must remain."
        )
    return sentences


def cut_statistics(forecasts: pd.DataFrame, family: str) -> dict[str, Any]:
    """Collect the numbers on each cut, more of `family`, and on all cuts (`forecast_every_cut`)."""
    outcomes = summarize_cuts(forecasts, ["family", "hidden"])
    values: dict[str, Any] = {}
    for row in outcomes.to_dict("records"):
        cut, of_family = f"{row['family']}.h{row['hidden']}", row["family"] == family
        values[f"cut.score.{cut}"] = row["score"]
        if row["hidden"] == 1 or (of_family and row["hidden"] in (2, 6)):
            values |= {f"cut.count.{cut}": row["count"], f"cut.optimistic.{cut}": row["optimistic"]}
        if of_family and row["hidden"] in (2, 6):
            values[f"cut.error_median.{cut}"] = row["error_median"]
        if of_family and row["hidden"] == 2:
            names = ("floored", "floor_optimistic", "floor_median", "floor_zero")
            values |= {f"cut.{name}.{cut}": row[name] for name in names}
    for name, rows in (("one", forecasts[forecasts["hidden"] == 1]), ("all", forecasts)):
        values |= {f"cuts.{name}.count": len(rows), f"cuts.{name}.optimistic": int((rows["error"] < 0).sum())}
    return values | {
        "cuts.made": len(outcomes),
        "cuts.covering": int((outcomes["covered"] / outcomes["count"] >= 0.9).sum()),
        "cuts.near": int((outcomes["error_median"] <= 5).sum()),
        "cuts.sharp": int((outcomes["score"] <= SCORE).sum()),
        "cuts.width_max": outcomes["width_median"].max(),
    }


def cut_table(forecasts: pd.DataFrame, *, caption: str) -> dict[str, Any]:
    """List `summarize_cuts` by family and number of hidden models, for `Page.table`."""
    columns: dict[Any, Any] = {
        ("family", "hidden"): ("hidden", "{}’s largest {}"),
        ("optimistic", "count"): ("too optimistic", "{:.0f} of {:.0f}"),
        "ahead": ("up to × size", "{:.1f}"),
        ("covered", "count"): ("inside the interval", "{:.0f} of {:.0f}"),
        "error_signed": ("median error, %", "{:+.1f}"),
        "error_median": ("median absolute error, %", "{:.1f}"),
        "floor_median": ("with a floor, %", "{:.1f}"),
        "width_median": ("interval’s width, %", "{:.1f}"),
    }
    rows = summarize_cuts(forecasts, ["family", "hidden"])
    most = rows.groupby("family")["hidden"].transform("max")  # the family of most cuts first
    rows = rows.loc[most.sort_values(ascending=False, kind="stable").index]
    return shown(rows, columns, caption=caption, data=forecasts)


_FLOOR = "#8A7A00"  # no family’s colour
_MEDIANS: dict[str, dict[str, Any]] = {"error": {"color": INK}, "floor_error": {"color": _FLOOR, "ls": (0, (1.5, 1))}}


def cut_panels(forecasts: pd.DataFrame) -> Panels:
    """Draw the errors' quantiles by how many of a family's largest models were hidden, families side by side.

    `forecasts`: `forecast_every_cut`. A thin bar for 80% of the errors, a thick one for half of them, and lines for the
    medians, with and without a floor; below each cut, how many forecasts are too optimistic.
    """
    cuts = forecasts.groupby("family")["hidden"].max().sort_values(ascending=False, kind="stable")
    groups: list[list[str]] = []
    for family, columns in cuts.items():  # as many families to a panel as have no more cuts than the first
        if not groups or cuts[groups[-1]].sum() + columns > cuts.iloc[0]:
            groups.append([])
        groups[-1].append(str(family))
    named = {", ".join(group): group for group in groups}
    errors = forecasts.assign(error=100 * forecasts["error"], floor_error=100 * forecasts["floor_error"])
    reach = 1.25 * float(errors.groupby(["family", "hidden"])["error"].quantile(np.array([0.1, 0.9])).abs().max())

    def draw(ax: Axes, key: str) -> None:
        ax.axhline(0, color=INK, lw=1)
        labels: list[str] = []
        for family in named[key]:
            colour, _ = family_style(family, sorted(cuts.index))
            for hidden, rows in errors[errors["family"] == family].groupby("hidden"):
                x, quantiles = len(labels), rows["error"].quantile([0.1, 0.25, 0.75, 0.9])
                ax.vlines(x, quantiles[0.1], quantiles[0.9], color=colour, lw=2)
                ax.vlines(x, quantiles[0.25], quantiles[0.75], color=colour, lw=13)
                for column, style in _MEDIANS.items():
                    ax.plot([x - 0.36, x + 0.36], [rows[column].median()] * 2, lw=2, **style)
                labels.append(f"{hidden}\n{(rows['error'] < 0).sum()}/{len(rows)}")
            middle = len(labels) - (cuts[family] + 1) / 2
            ax.text(middle, 0.97 * reach, family, ha="center", va="top", weight="bold")
        ax.text(-0.45, -0.97 * reach, "too optimistic", va="bottom")
        ax.text(-0.45, 0.84 * reach, "too pessimistic", va="top")
        ax.set_xticks(range(len(labels)), labels)
        ax.set_xlim(-0.6, max(len(labels), 3) - 0.4)
        ax.set_ylim(-reach, reach)
        ax.yaxis.set_major_formatter(SIGNED)
        ax.grid(visible=False, axis="x")
        ax.set_xlabel("largest models hidden; forecasts too optimistic")
        ax.set_ylabel("forecast less measured (%)")

    return Panels(list(named), draw, size=(4.6, 3.5))


# ── The same for cross-entropy


def forecast_cross_entropy(
    table: pd.DataFrame, hidden: pd.DataFrame, *, holdout: int, holdout_few: int, level: float
) -> pd.DataFrame:
    """Forecast the cross-entropy of the hidden models by the same law of S, where `table` holds it.

    A row for each model and k of `hidden` (`cells.forecasts`): its columns, and value, predicted, error, covered of
    cross-entropy, with the suffix _control. No row where the source has no cross-entropy of four sizes.
    """
    entropy = table[table["metric"] == "cross_entropy"]
    keys, columns = ["dataset", "family", "model"], ["value", "predicted", "error", "covered"]
    try:
        ahead = cells.forecasts(entropy, holdout=holdout, holdout_few=holdout_few, level=level)
    except FitError:
        ahead = pd.DataFrame(columns=[*keys, *columns])
    return hidden.merge(ahead[[*keys, *columns]], on=keys, suffixes=("", "_control"))


def control_statistics(control: pd.DataFrame) -> dict[str, Any]:
    """Summarize `forecast_cross_entropy`."""
    if control.empty:
        return {}
    models = control.drop_duplicates(["dataset", "model"])
    return {
        "control.models": len(models),
        "control.optimistic": int((models["error_control"] < 0).sum()),
        "control.error_median": 100 * models["error_control"].abs().median(),
        "control.rbp_error_median": 100 * control.loc[control["k"] == control["k"].min(), "error"].abs().median(),
    }


# ── Other curves


def curve_statistics(floors: pd.DataFrame, bends: pd.DataFrame) -> dict[str, Any]:
    """Summarize `cells.offsets`, offset.cells and offset.distinguishable of Pythia alone, and `cells.curvatures`."""
    pythia, strongest = floors[floors["family"] == "Pythia"], bends.sort_values("p").iloc[0]
    values: dict[str, Any] = {}
    if len(pythia):
        values |= {"offset.cells": len(pythia), "offset.distinguishable": int(pythia["distinguishable"].sum())}
    if bends["alarm_holm"].sum() == 1:  # a sentence names the only one
        values |= {"bent.strongest": f"{cell_label(strongest)} at k = {strongest['k']}"}
    return values | {
        "offset.r_squared_median": floors["r_squared"].median(),
        "bent.cells": len(bends),
        "bent.alarms_holm": int(bends["alarm_holm"].sum()),
        "bent.upwards": int((bends["coefficient"] > 0).sum()),
    }


def select_example(points: pd.DataFrame, family: str) -> pd.DataFrame:
    """Choose the points of one family that other curves are drawn through: its first k and dataset, in order."""
    rows = points[points["family"] == family]
    rows = rows[rows["k"] == rows["k"].min()]
    example: pd.DataFrame = rows[rows["dataset"] == dataset_order(rows["dataset"])[0]]
    return example


def fit_shapes(points: pd.DataFrame) -> dict[str, ShapeFit]:
    """Fit each of SHAPES, curves of two parameters, to the points of one family."""
    return {shape: fit_shape(shape, points["size"], points["value"]) for shape in SHAPES}


_BEYOND = 100  # times the largest size: so far curves are drawn


def shape_figure(points: pd.DataFrame, fits: Mapping[str, ShapeFit], *, ylabel: str) -> Figure:
    """Draw the points of one family with several fitted curves, up to _BEYOND times the largest size."""
    low, high = points["size"].min(), points["size"].max()
    sizes = np.geomspace(low, high * _BEYOND, 200)
    styles = zip((INK, SCALE[0], SCALE[-1]), ("-", (0, (6, 2)), (0, (2, 1.5))), strict=True)

    def draw(ax: Axes) -> None:
        ax.axvspan(high, high * _BEYOND, color=FAINT, alpha=0.5, lw=0)
        labels = {}
        for (name, fit), (colour, dash) in zip(fits.items(), styles, strict=True):
            value = np.maximum(fit.predict(sizes), points["value"].min() / 10)
            ax.plot(sizes, value, ls=dash, color=colour, lw=1.8)
            labels[name] = (float(sizes[-1]), float(value[-1]), colour)
        ax.plot(points["size"], points["value"], "o", color=INK, ms=6, zorder=3)
        ax.set_xlim(low / 1.5, high * _BEYOND)
        ax.set_yscale("log")
        log_axis(ax, "x", plain=False)
        lowest = min(end[1] for end in labels.values())
        ax.set_ylim(max(lowest, points["value"].min() / 3) / 1.1, points["value"].max() * 1.1)
        log_axis(ax, "y")
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel(ylabel)
        middle = high * _BEYOND**0.5
        ax.annotate("no model here", (middle, 0.96), xycoords=("data", "axes fraction"), ha="center", va="top")
        label_line_ends(ax, labels)

    return single_panel(draw, size=(4.6, 2.4))


# ── The explorer: what moves it is book/_static/explorer.js

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)  # of its intervals


def explorer(source: Source) -> str:
    """Build the explorer of all points of `source`, as HTML: its scripts draw it in the browser.

    A model knows the part of the source that it is from, for the command that makes the same fit; quantiles: Student's
    t by level, then by degrees of freedom from 1 on.
    """
    parts = {(row.dataset, row.model): part.name for part in source.parts for row in part.table.itertuples()}
    table = source.table
    named = [parts[key] for key in zip(table["dataset"], table["model"], strict=True)]
    data = _points(table.assign(source=named))
    most = max(table.groupby(["dataset", "family", "metric", "k"], dropna=False).size().max(), 3)
    freedom = np.arange(1, most - 1)
    quantiles = {level: student.ppf((1 + level) / 2, freedom).tolist() for level in LEVELS}
    within = data_within(data | {"quantiles": quantiles})
    return f'<div class="rbp-explorer"><noscript><p>The explorer needs JavaScript.</p></noscript>{within}</div>'


def _points(table: pd.DataFrame) -> dict[str, Any]:
    datasets = dataset_order(table["dataset"])
    models: dict[tuple[str, str, int, str], int] = {}
    points = []
    for row in table.to_dict("records"):
        place = models.setdefault((row["model"], row["family"], row["size"], row["source"]), len(models))
        points.append([datasets.index(row["dataset"]), place, _whole(row["k"]), row["value"]])
    families = sorted(set(table["family"]))
    styles = {family: family_style(family, families) for family in families}
    labels = DATASETS | FAMILIES
    return {"datasets": datasets, "models": list(models), "points": points, "labels": labels, "styles": styles}


def _whole(number: Any) -> int | None:
    return None if pd.isna(number) else int(number)
