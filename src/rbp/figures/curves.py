"""Draw lines in panels, as half of the book's figures do, with names and colours by one rule."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.ticker import MaxNLocator

from rbp.errors import FitError
from rbp.figures.style import (
    INK,
    LABELS,
    Panels,
    Style,
    family_style,
    label_line_ends,
    legend_below,
    log_axis,
    power_of_ten,
)
from rbp.figures.wording import dataset_label, dataset_order, family_label, model_label
from rbp.laws.power import fit_power_law

RAMP = ("#B8579A", "#8A63C9", "#2A7FC0", "#00909E", "#2E9E5B", "#8A7A00", "#D55E00")  # small to large, all legible
#: of ordered numbers (k, N, S, D), small to large: no family's colour, and each 3:1 or more on white and in the dark
SCALE = ("#7748de", "#9e43c7", "#bb42a8", "#d04685", "#db5261", "#dd653c", "#d67b18")
MARKERS = "osD^vPX*"
_SYMBOLS = {"n": "N", "size": "S"}
_BESIDE = 1.03  # lines with intervals stand this factor apart, so that these do not hide each other


def ramp(count: int) -> list[str]:
    """Return `count` colours from small to large."""
    return [RAMP[round(i * (len(RAMP) - 1) / max(count - 1, 1)) % len(RAMP)] for i in range(count)]


def shades(values: Iterable[int]) -> dict[int, str]:
    """Choose a colour of SCALE for each of an ordered set of numbers."""
    ordered = sorted(int(value) for value in values)
    scale = LinearSegmentedColormap.from_list("ordered", SCALE)
    places = np.linspace(0, 1, max(len(ordered), 2))
    return {value: to_hex(scale(place)) for value, place in zip(ordered, places, strict=False)}


def numbered(colours: Mapping[int, str], name: str) -> dict[str, Style]:
    """Return the styles that `legend_below` takes, of `shades`: "N = 1", 2, 5 …"""
    return {
        (f"{name} = " if i == 0 else "") + format_whole(value): Style(colour, "", width=2.2)
        for i, (value, colour) in enumerate(sorted(colours.items()))
    }


def format_whole(value: int) -> str:
    """Format a whole number as it is, or with two digits and a power of ten where it is long."""
    return f"{value:,}" if value < 100_000 else power_of_ten(float(f"{value:.1e}"))


def curves(
    rows: pd.DataFrame,
    x: str,
    y: str,
    *,
    labels: tuple[str, str],
    line: str = "line",
    panel: str | None = "dataset",
    styles: Mapping[Any, Sequence[Any]] | None = None,
    fitted: Sequence[pd.DataFrame] | None = None,
    name_ends: bool = False,
    log: Literal["x", "y", "xy", ""] = "x",
    heights: Sequence[float] = (),
    band: bool = False,
    ylim: tuple[float | None, float | None] | Literal["shared"] | None = None,
    size: tuple[float, float] = (4.6, 4.0),
) -> Panels:
    """Plot `y` against `x`: a panel for each value of the column `panel` (none: one panel), a line for each of `line`.

    rows: may have `low` and `high`, drawn as bars or as a `band`, and `hollow`, which points are. styles: the fields of
    a `Style` by line, in order; None: as families, numbers or others are drawn everywhere. A line whose name begins
    with "_" is not named. fitted: curves in place of lines from point to point; `weak` ones dashed. name_ends: whether
    names stand at the lines' ends, else below. heights: horizontal lines.
    """
    line_styles = {name: Style(*style) for name, style in (styles or _styles(rows, line)).items()}
    paths = pd.concat(fitted) if fitted else None
    with_bars = set(rows.dropna(subset="low")[line]) if "low" in rows and fitted is None and not band else set()
    barred = [name for name in line_styles if name in with_bars]
    limits = _limits(rows, y, heights, log="y" in log) if ylim == "shared" else ylim
    shaded = styles is None and pd.api.types.is_numeric_dtype(rows[line])

    def draw(ax: Axes, key: Any) -> None:
        for height in heights:
            ax.axhline(height, color=INK, lw=0.8, ls="-" if height == 0 else (0, (5, 3)))
        tips, seen = {}, {}
        for name, style in line_styles.items():
            where = {line: name} | ({panel: key} if panel else {})
            points, curve = (_select(table, where, x, y) for table in (rows, paths))
            if points.empty and curve.empty:
                continue
            if "hollow" in points:
                style = style._replace(hollow=bool(points["hollow"].all()))
            place = barred.index(name) - (len(barred) - 1) / 2 if name in barred else 0
            points = points.assign(**{x: points[x] * _BESIDE**place})
            _points(ax, points, x, y, style, bars=not band)
            path = points if fitted is None else curve
            if len(path):
                dash = "--" if "weak" in path and path["weak"].any() else style.dash
                ax.plot(path[x], path[y], ls=dash, color=style.colour, lw=style.width)
            if "low" in path and (band or fitted is not None):
                ax.fill_between(path[x], path["low"], path["high"], color=style.colour, alpha=0.17, lw=0)
            last = (points if curve.empty else curve).iloc[-1]
            tips[_name(line, name)] = (float(last[x]), float(last[y]), style.colour)
            seen[name] = style
        if limits:
            ax.set_ylim(*limits)
        elif fitted is not None:  # the band of a few points can be wide beyond use
            points, path = (_select(table, {panel: key} if panel else {}, x, y) for table in (rows, paths))
            ax.set_ylim(*_limits(points, y, path[y].tolist(), log="y" in log))
        if "x" in log:
            log_axis(ax, "x", plain=rows[x].max() < 100_000)
        elif pd.api.types.is_integer_dtype(rows[x]):
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        if "y" in log:
            log_axis(ax, "y")
        ax.set_xlabel(labels[0])
        ax.set_ylabel(labels[1])
        if panel:
            ax.set_title(_name(panel, key))
        if name_ends:
            label_line_ends(ax, tips)
        elif shaded:
            legend_below(ax, numbered({name: style.colour for name, style in seen.items()}, _SYMBOLS.get(line, line)))
        else:
            named = {_name(line, value): style for value, style in seen.items()}
            legend_below(ax, {name: style for name, style in named.items() if name[0] != "_"})

    return Panels(_keys(rows, panel), draw, size=size)


def _keys(rows: pd.DataFrame, panel: str | None) -> list[Any]:
    if panel is None:
        return [""]
    column = rows[panel]
    if panel == "dataset":
        return dataset_order(column)
    values = column.unique()
    return sorted(map(int, values)) if pd.api.types.is_integer_dtype(column) else [*values]


def _styles(rows: pd.DataFrame, line: str) -> dict[Any, tuple[str, str]]:
    names = rows[line].unique().tolist()
    if pd.api.types.is_numeric_dtype(rows[line]):
        return {name: (colour, "o") for name, colour in shades(names).items()}
    if line == "family":
        return {name: family_style(name, names) for name in sorted(names)}
    names = dataset_order(names) if line == "dataset" else names
    markers = (MARKERS[i % len(MARKERS)] for i in range(len(names)))
    return dict(zip(names, zip(ramp(len(names)), markers, strict=True), strict=True))


def _select(table: pd.DataFrame | None, where: Mapping[str, Any], x: str, y: str) -> pd.DataFrame:
    if table is None:
        return pd.DataFrame({x: [], y: []})
    selected = table
    for column, value in where.items():
        selected = selected[selected[column] == value]
    return selected.dropna(subset=y).sort_values(x)


def _points(ax: Axes, points: pd.DataFrame, x: str, y: str, style: Style, *, bars: bool) -> None:
    """Draw a line's points, with their bars."""
    if "low" in points and bars:
        ax.vlines(points[x], points["low"], points["high"], color=style.colour, lw=1)
    hollow = points.get("hollow", pd.Series(False, points.index)).to_numpy(bool)
    for some in (False, True):
        chosen = points[hollow == some]
        if len(chosen):
            ax.plot(chosen[x], chosen[y], ls="", zorder=3, **style._replace(hollow=some).marks)


def _limits(rows: pd.DataFrame, y: str, more: Sequence[float], *, log: bool) -> tuple[float, float]:
    columns = [y, *(name for name in ("low", "high") if name in rows)]
    values = np.array([*rows[columns].to_numpy(float).ravel(), *more])
    low, high = (float(end(np.log(values) if log else values)) for end in (np.nanmin, np.nanmax))
    margin = 0.08 * (high - low) or 0.4
    return (np.exp(low - margin), np.exp(high + margin)) if log else (low - margin, high + margin)


def _name(column: str, value: Any) -> str:
    """Name a line or a panel by the column that distinguishes them."""
    if column == "dataset":
        return dataset_label(value)
    if column == "model":
        return model_label(value)
    if column == "family":
        return family_label(value)
    return str(value) if isinstance(value, str) else f"{_SYMBOLS.get(column, column)} = {format_whole(value)}"


def scaling_panels(
    points: pd.DataFrame,
    *,
    xlabel: str = LABELS["size"],
    ylabel: str = "",
    level: float = 0.95,
    panel: str = "dataset",
) -> Panels:
    """Plot measured values against S, by dataset, with each family's power law and the confidence band of its line.

    `points` is a measurement table of one metric and one k, or has the column `panel`. Both axes are logarithmic, so a
    power law is a straight line. Families that cannot be fitted show their points alone; a value of 0 is left out.
    """
    rows, fitted = points[points["value"] > 0], fitted_lines(points, [panel, "family"], level)
    return curves(
        rows, "size", "value", labels=(xlabel, ylabel), panel=panel, line="family", fitted=fitted, name_ends=True,
        log="xy", size=(4.6, 3.7),
    )  # fmt: skip


def fitted_lines(points: pd.DataFrame, by: Sequence[str], level: float = 0.95) -> list[pd.DataFrame]:
    """Fit `curves`' lines: the power law of each group over its sizes, with its band; none without a fit.

    points: the columns `by`, size and value.
    """
    lines = []
    for group, rows in points.groupby(list(by)):
        with suppress(FitError):
            law = fit_power_law(rows["size"], rows["value"], level=level)
            line = law.predict(np.geomspace(law.size_min, law.size_max, 60))[["size", "value", "mean_low", "mean_high"]]
            line.columns = pd.Index(["size", "value", "low", "high"])
            group_values: dict[str, Any] = dict(zip(by, group, strict=True))
            lines.append(line.assign(weak=law.weak, **group_values))
    return lines
