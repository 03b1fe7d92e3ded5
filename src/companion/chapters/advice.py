"""Chapter "Advice": one figure of a law in size, its forecasts, cross-entropy, and tokens in a row."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from companion.plots import by_number
from companion.stats import cells
from rbp.figures.curves import shades
from rbp.figures.style import FAMILIES, INK, LABELS, Panels, family_style, log_axis, rbp_label
from rbp.figures.wording import family_label
from rbp.laws.power import fit_power_law
from rbp.measurements import select

CELL = ["family", "k"]
SMALL_K = (1, 10, 100)


def fit_lines(table: pd.DataFrame, cells: dict[str, tuple[int, ...]], dataset: str = "wikipedia") -> pd.DataFrame:
    """Fit −ln RBP_k of some families on one text, as a share of its value for the family's smallest model.

    table: measurements; cells: the thresholds k of each family. Columns family, k, size, model, share, line (the power
    law at that size), alpha, r_squared; sorted by family, k and size. Raises FitError where a family has fewer than
    three sizes.
    """
    rows = []
    for family, ks in cells.items():
        for k in ks:
            points = select(table, dataset=dataset, family=family, metric="neg_log_rbp", k=k).sort_values("size")
            fit, first = fit_power_law(points["size"], points["value"]), points["value"].iloc[0]
            line = fit.predict(points["size"])["value"].to_numpy() / first
            points = points.assign(share=points["value"] / first, line=line, alpha=fit.alpha, r_squared=fit.r_squared)
            rows.append(points)
    return pd.concat(rows)[[*CELL, "size", "model", "share", "line", "alpha", "r_squared"]].reset_index(drop=True)


def forecast_largest(table: pd.DataFrame) -> pd.DataFrame:
    """Forecast the two largest models of each family and text from the others, by the law in S: RBP_k, and CE.

    One of families of five sizes or fewer; CE where it was measured. Columns dataset, family, hidden (how many of the
    family's models were), model, k (missing for CE), ahead (size over the largest fitted), error: forecast over
    measured, less one, in per cent; below 0, the forecast was too optimistic. At SMALL_K.
    """
    ranks = table[(table["metric"] == "neg_log_rbp") & table["k"].isin(SMALL_K)]
    rows = [
        cells.forecasts(points, holdout=2, holdout_few=1)
        for points in (table[table["metric"] == "cross_entropy"], ranks)
    ]
    both = pd.concat(forecasts.astype({"k": "Int64"}) for forecasts in rows)
    hidden = both.groupby(["dataset", "family"])["model"].transform("nunique")
    both = both.assign(hidden=hidden, error=100 * both["error"])
    return both[["dataset", "family", "hidden", "model", "k", "ahead", "error"]].reset_index(drop=True)


def compare_windows(windows: pd.DataFrame, model: str) -> pd.DataFrame:
    """Compare −ln p of a model for N tokens in a row with independent tokens, at SMALL_K.

    windows: of a source, on one text. Columns k, n, measured, independent (N·(−ln RBP_k)); lengths without a success
    are left out, since they have no −ln p.
    """
    counts = windows[(windows["model"] == model) & windows["k"].isin(SMALL_K) & (windows["p"] > 0)]
    measured = counts.assign(measured=-np.log(counts["p"].astype(float)))
    single = measured[measured["n"] == 1].set_index("k")["measured"]
    table = measured.assign(independent=measured["n"] * measured["k"].map(single))
    return table[["k", "n", "measured", "independent"]].sort_values(["k", "n"]).reset_index(drop=True)


def times_as_often(row: pd.DataFrame, k: int, n: int) -> float:
    """Compute how many times as often as independent tokens n in a row succeed. row: `compare_windows`."""
    both = row[(row["k"] == k) & (row["n"] == n)].iloc[0]
    return float(np.exp(both["independent"] - both["measured"]))


def stack_panels(**panels: pd.DataFrame) -> pd.DataFrame:
    """Stack the tables of several panels, with a column that names the panel."""
    return pd.concat([table.assign(panel=name) for name, table in panels.items()], ignore_index=True)


STRAIGHT = 0.97  # the paper's bar for R² (section 4.2)
MANY = 50  # a family of so many models is plotted small and pale
LENGTH = 10  # the tokens in a row whose success is compared in words


def plot_argument(
    lines: pd.DataFrame, errors: pd.DataFrame, pairs: pd.DataFrame, curves: pd.DataFrame, row: pd.DataFrame
) -> Panels:
    """Plot −ln RBP_k by size, forecasts of hidden models, RBP_1 by cross-entropy, N tokens in a row: four panels.

    pairs and curves: of `pair_metrics` and `straight_lines` of the chapter on cross-entropy. Each panel's title follows
    from its points.
    """
    panels = {
        "size": lambda ax: _plot_size(ax, lines),
        "ahead in size": lambda ax: _plot_errors(ax, errors),
        "cross-entropy": lambda ax: _plot_entropy(ax, pairs, curves),
        "tokens in a row": lambda ax: _plot_windows(ax, row),
    }

    def draw(ax: Axes, key: str) -> None:
        panels[key](ax)

    return Panels(list(panels), draw, size=(4.6, 3.1))


def _plot_size(ax: Axes, lines: pd.DataFrame) -> None:
    ax.set_xscale("log")
    colours = shades(lines["k"].unique())
    groups: Any = lines.groupby(CELL)
    for (family, k), points in groups:
        marker = family_style(family)[1]
        ax.plot(points["size"], points["line"], color=colours[k], lw=1.2)
        ax.plot(points["size"], points["share"], marker, color=colours[k], ms=5, mew=0)
        end = points.iloc[-1]
        _label(ax, f"{family}, k = {k:,}", (end["size"], end["line"]), (6, 0))
    ax.set_xlim(right=float(lines["size"].max()) * 400)
    log_axis(ax, "x", plain=False)
    log_axis(ax, "y")
    ax.set_xlabel(LABELS["size"])
    ax.set_ylabel("−ln RBPₖ, smallest model = 1")
    straight = lines.loc[lines["k"].isin(SMALL_K), "r_squared"].min() >= STRAIGHT
    large = lines[~lines["k"].isin(SMALL_K)]
    fails = ", not at large k" if (large["alpha"] < 0).any() else ""
    ax.set_title(f"{'A' if straight else 'Nearly a'} power at small k{fails}")


def _plot_errors(ax: Axes, errors: pd.DataFrame) -> None:
    metrics = ["CE", *map(rbp_label, SMALL_K)]
    families = sorted(errors["family"].unique())
    for i, family in enumerate(families):
        colour, marker = family_style(family, families)
        points = errors[errors["family"] == family]
        place = np.array([0 if pd.isna(k) else 1 + SMALL_K.index(k) for k in points["k"]])
        place = place + 0.17 * (i - (len(families) - 1) / 2)
        ax.plot(place, points["error"], marker, color=colour, ms=6, mew=0, label=family_label(family))
    ax.axhline(0, color=INK, lw=0.9)
    ax.set_xticks(range(len(metrics)), metrics)
    ax.set_xlim(-0.5, len(metrics) - 0.5)
    low, high = errors["error"].min(), errors["error"].max()
    ax.set_ylim(low - 0.12 * (high - low), high + 0.45 * (high - low))
    ax.grid(axis="x", visible=False)
    optimistic = (errors["error"] < 0).groupby(errors["family"]).mean()
    ax.text(0.02, 0.03, "below 0: too optimistic", transform=ax.transAxes)
    ax.set_ylabel("forecast less measured (%)")
    one_way = "are too optimistic" if (optimistic > 0.5).all() else "are too pessimistic"
    both_ways = (optimistic > 0.5).any() and not (optimistic > 0.5).all()
    ax.set_title(f"Forecasts ahead {'miss in both directions' if both_ways else one_way}")
    ax.legend(loc="upper right", ncols=2, columnspacing=0.9, handletextpad=0.2)


def _plot_entropy(ax: Axes, pairs: pd.DataFrame, curves: pd.DataFrame) -> None:
    families = sorted(curves["family"].unique())
    cells: list[Any] = list(curves.itertuples())
    for cell in cells:
        points = pairs[(pairs["dataset"] == cell.dataset) & (pairs["family"] == cell.family)]
        colour, marker = family_style(cell.family, families)
        few = len(points) < MANY
        costs, hits = points["cross_entropy"], np.exp(-points["neg_log_rbp"])
        ax.plot(costs, hits, marker, color=colour, ms=5 if few else 2, mew=0, alpha=0.9 if few else 0.35)
        span = np.array([costs.min(), costs.max()])
        ax.plot(span, cell.at_zero - cell.per_nat * span, color=colour, lw=1)
    texts = curves.groupby("family")["dataset"].nunique()
    names = {
        family: family_label(family) + (f", {texts[family]} texts" if texts[family] > 1 else "") for family in families
    }
    ax.legend(handles=[_handle(names[family], *family_style(family, families)) for family in families])
    ax.set_xlabel(LABELS["cross_entropy"])
    ax.set_ylabel("RBP₁")
    straight = curves["r_squared"].min() >= STRAIGHT
    ax.set_title(f"Each family and text: {'' if straight else 'nearly '}a line in CE")


def _plot_windows(ax: Axes, row: pd.DataFrame) -> None:
    ax.set_xscale("log")
    colours, marker = shades(row["k"].unique()), FAMILIES["Pythia"][1]
    for k, points in by_number(row, "k"):
        colour = colours[k]
        ax.plot(points["n"], points["measured"], marker=marker, color=colour, ms=4.5, mew=0, lw=1.2)
        ax.plot(points["n"], points["independent"], ":", color=colour, lw=1.4)
        _label(ax, f"k = {k}", (1, points["measured"].iloc[0]), (-6, 0), ha="right")
    ax.set_xlim(left=0.15)
    log_axis(ax, "x")
    log_axis(ax, "y")
    times = times_as_often(row, 1, LENGTH)
    both = row[(row["k"] == 1) & (row["n"] == LENGTH)].iloc[0]
    note = f"{LENGTH} tokens: {times:.0f} times as often"
    end, start = (LENGTH, both["measured"]), (3, 8 * both["independent"])
    ax.annotate(note, end, start, ha="center", arrowprops={"arrowstyle": "->", "color": INK})
    ax.set_xlabel("tokens in a row")
    ax.set_ylabel("−ln p (dotted: if independent)")
    ax.set_title(f"Tokens in a row are {'not' if times > 1.1 else 'nearly'} independent")


def _label(ax: Axes, text: str, place: tuple[float, float], away: tuple[float, float], *, ha: str = "left") -> None:
    """Write a name beside a line, so many points away."""
    ax.annotate(text, place, xytext=away, textcoords="offset points", va="center", ha=ha)


def _handle(name: str, colour: str, marker: str) -> Line2D:
    return Line2D([], [], color=colour, marker=marker, ms=5, mew=0, lw=1.1, label=name)
