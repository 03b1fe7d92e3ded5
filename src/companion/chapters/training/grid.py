"""Our own grids of S and D, one recipe for all: does any law hold, and how does the exponent in S go with D?"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import f as f_distribution

from companion.chapters.families import OURS, TRANSFORMER, exponents, measure_label, of_measure
from companion.stats.cells import with_holm
from companion.stats.separability import interaction, left_of_two, power_interval
from ladder.shipped import TRIALS
from rbp.arrays import check_level
from rbp.errors import DataError, FitError, ParameterError
from rbp.figures.curves import K_SHADES, MARKERS, curves, ramp
from rbp.figures.style import INK, LABELS, Panels, legend_below, neg_log_rbp_label
from rbp.figures.wording import dataset_label, dataset_order
from rbp.laws.misfit import ADDITIVE
from rbp.laws.power import curvature
from rbp.laws.resampling import interval
from rbp.laws.surface import fit_surface
from rbp.measurements.counts import Counts, LeftOut
from rbp.report.display import Columns, shown

CELL = ["dataset", "k"]


def _cells(points: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The rows of each text and k, the cross-entropy's among them (k missing)."""
    key: Any
    for key, own in points.groupby(CELL, sort=False, dropna=False):
        yield {"dataset": str(key[0]), "k": None if pd.isna(key[1]) else int(key[1])}, own


# ── Is it a sum, or a product? A test without a shape


def separability(
    texts: Sequence[Counts],
    ks: Sequence[int],
    families: Sequence[str],
    trials: Sequence[Counts] = (),
    *,
    level: float = 0.95,
) -> pd.DataFrame:
    """Whether y = u(S) + v(D), or ln y = u(S) + v(D), with any u and v: seed 0's grid against the seeds' variance.

    trials: more models with other seeds, of the families' cells, as `shipped.counted` has those of trials.
    A row for each family, text and measure (k missing: cross-entropy), by these: family, dataset, k; p_sum, p_product:
    of `interaction`; off_sum, off_product: by how much the best one misses y (root mean square, per cent); off_seeds:
    how far seeds scatter; times_sum: how many times larger the seeds' variance would have to be for a sum to pass;
    power, low, high, p_power: `power_interval`; df_num, df_den. Families without seeds or a whole grid are left out.
    """
    rows = []
    for family in families:
        for text in texts:
            own = text.keep(text.models["family"] == family, ks).table()
            for one in (one for one in trials if one.dataset == text.dataset):
                again = (one.models["family"] == family + TRIALS) & (one.models["seed"] > 0)
                own = pd.concat([own, one.keep(again, ks).table()])
            for cell, y in _cells(own.sort_values("k", kind="stable")):
                grid = y[y["seed"] == 0].pivot_table(index="size", columns="budget", values="value")
                cells = y.groupby(["size", "budget"])["value"]
                seeds = [values.to_numpy() for _, values in cells if len(values) > 1]
                if not seeds or min(grid.shape) < 2 or grid.isna().any(axis=None):
                    continue
                added, multiplied = (interaction(grid, seeds, power) for power in (1, 0))
                best = power_interval(grid, seeds, level=level)
                cut = f_distribution.ppf(level, added.df_num, added.df_den)
                y_grid = grid.to_numpy(dtype=float)
                off = {"sum": left_of_two(y_grid) / y_grid, "product": left_of_two(np.log(y_grid))}
                spread = [np.log(each.astype(float)) for each in seeds]
                scatter = sum(((each - each.mean()) ** 2).sum() for each in spread) / added.df_den
                rows.append(
                    {"family": family, **cell, "p_sum": added.p, "p_product": multiplied.p, "times_sum": added.f / cut}
                    | {f"off_{name}": 100 * np.sqrt((each**2).mean()) for name, each in off.items()}
                    | {"off_seeds": 100 * np.sqrt(scatter)}
                    | {"power": best.estimate, "low": best.low, "high": best.high, "p_power": best.p}
                    | {"df_num": added.df_num, "df_den": added.df_den}
                )
    if not rows:
        raise DataError("no family has a grid of sizes and tokens and a model trained again", "the ladder")
    return pd.DataFrame(rows).astype({"k": "Int64"})


def separability_told(table: pd.DataFrame, *, level: float = 0.95) -> dict[str, Any]:
    """What the page says of `separability`."""
    alpha = 1 - level
    found: dict[str, Any] = {"apart.cells": len(table), "apart.df": int(table["df_den"].min())}
    for name in ("sum", "product"):
        p = table[f"p_{name}"]
        corrected = with_holm(table.assign(p=p), level)["alarm_holm"].sum()
        found |= {f"{name}.rejected": int((p < alpha).sum()), f"{name}.holm": int(corrected)}
        off = table[f"off_{name}"]
        found |= {f"{name}.off": off.median(), f"{name}.off_min": off.min(), f"{name}.off_max": off.max()}
    losses = table["k"].isna()
    found |= {"apart.loss_cells": int(losses.sum()), "sum.loss_rejected": int((table["p_sum"] < alpha)[losses].sum())}
    found["seeds.off"] = table["off_seeds"].median()
    return found | {"power.none": int(table["low"].isna().sum()), "sum.times": table["times_sum"].median()}


def separability_shown(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """The rows of `separability`, for `Page.table`."""
    rows = table.assign(measure=[measure_label(k) for k in table["k"]])
    columns: Columns = {
        "family": "family",
        "dataset": "Text",
        "measure": "y",
        "p_sum": ("p, sum", "{:.2g}"),
        "p_product": ("p, product", "{:.2g}"),
        "off_sum": ("sum misses, %", "{:.1f}"),
        "off_product": ("product misses, %", "{:.1f}"),
        "off_seeds": ("seeds scatter, %", "{:.1f}"),
        "power": ("best λ", "{:.2f}"),
        ("low", "high"): (f"λ not rejected, {level:.0%}", "[{:.1f}, {:.1f}]"),
        "p_power": ("p there", "{:.2g}"),
        "times_sum": ("seeds’ variance would have to be, times", "{:.1f}"),
    }
    caption = (
        "<b>Sum, product, or any power of y.</b> y<sup>λ</sup> = u(S) + v(D): λ = 1 is a sum, λ → 0 a product. "
        "A dash: every λ is rejected. Misses: root mean square over the grid. Last column: for a sum to pass. "
        f"All are {OURS}."
    )
    return shown(rows, columns, caption=caption, data=table)


# ── The points, and their bends


def surface_shown(points: pd.DataFrame, k: int) -> dict[str, Any]:
    """What `Page.figure` takes for −ln RBP_k against S, a line of points for each D, by text, with the sum's curves.

    points: `families.points`.
    """
    own = of_measure(points, k).sort_values("training_tokens")
    budgets = {f"D = {millions(budget)}": float(budget) for budget in own["training_tokens"].unique()}
    rows = own.assign(line=own["training_tokens"].map({value: name for name, value in budgets.items()}))
    lines = []
    for dataset, there in rows.groupby("dataset"):
        sizes = np.geomspace(there["size"].min(), there["size"].max(), 60)
        with suppress(FitError):
            law = fit_surface(there, ADDITIVE)
            for name in there["line"].unique():
                value = law.predict(sizes, budgets[name])
                lines.append(pd.DataFrame({"dataset": dataset, "line": name, "size": sizes, "value": value}))
    styles = {name: (colour, "o") for name, colour in zip(budgets, ramp(len(budgets)), strict=True)}
    panels = curves(
        rows, "size", "value", labels=(LABELS["size"], neg_log_rbp_label(k)), styles=styles,
        fitted=lines, ends=True, log="xy", size=(4.6, 3.9),
    )  # fmt: skip
    return {
        "figure": panels,
        "caption": f"<b>−ln RBP<sub>{k}</sub> of a grid over S,</b> a colour for each number of training tokens D. "
        "Lines: one sum for all, E + A·S<sup>−a</sup> + B·D<sup>−b</sup>: it cannot bend down, as the points do where "
        "D is small.",
        "alt": "Log-log plot against model size, a line of points for each number of training tokens, with curves",
        "data": points,
    }


def grid_told(points: pd.DataFrame, bent: pd.DataFrame) -> dict[str, Any]:
    """What the page says of the grid and of `bends`."""
    counted, budgets = bends_by_tokens(bent), points["training_tokens"] / 1e6
    first, last = counted.iloc[0], counted.iloc[-1]
    found = {"sizes": points["size"].nunique()}
    found |= {"budget.first": budgets.min(), "budget.last": budgets.max(), "down.lines": int(first["lines"])}
    counts = {"down.first": first["down"], "up.surely": last["surely_up"]}
    return found | {name: int(value) for name, value in counts.items()}


def millions(tokens: float) -> str:
    """A number of tokens in millions: 0.5 M."""
    return f"{tokens / 1e6:g} M"


def bends(points: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The coefficient of (ln S)² of each text and k at each D (`curvature`), corrected over the lines of a D by Holm.

    points: `families.points`. Columns training_tokens, dataset, k, n, coefficient, low, high, p, alarm, p_holm,
    alarm_holm. Lines that have no test, of three sizes say, are left out.
    """
    parts = []
    names = ("n", "coefficient", "low", "high", "p")
    for tokens, there in points.groupby("training_tokens"):
        rows = []
        for cell, own in _cells(there):
            with suppress(FitError):
                bend = curvature(own["size"], own["value"], level=level)
                rows.append({"training_tokens": tokens, **cell} | {name: getattr(bend, name) for name in names})
        parts.append(with_holm(pd.DataFrame(rows, columns=["training_tokens", *CELL, *names]), level))
    return pd.concat(parts, ignore_index=True).astype({"k": "Int64"})


def bends_by_tokens(table: pd.DataFrame) -> pd.DataFrame:
    """`bends` counted at each D: training_tokens, lines, down, up, surely_down, surely_up (after Holm), low, high (the
    coefficients' ends).
    """
    up = table["coefficient"] > 0
    marked = table.assign(up=up, down=~up, surely_up=up & table["alarm_holm"], surely_down=~up & table["alarm_holm"])
    counts = {name: (name, "sum") for name in ("down", "surely_down", "up", "surely_up")}
    ends = {"low": ("coefficient", "min"), "high": ("coefficient", "max")}
    return marked.groupby("training_tokens").agg(lines=("n", "size"), **counts, **ends).reset_index()


def bends_shown(table: pd.DataFrame) -> dict[str, Any]:
    """The rows of `bends_by_tokens`, for `Page.table`."""
    columns: Columns = {
        "tokens": "D",
        "lines": "lines",
        "down": "bend down",
        "surely_down": "surely",
        "up": "bend up",
        "surely_up": "surely up",
        ("low", "high"): ("curvature, from … to", "[{:+.4f}, {:+.4f}]"),
    }
    caption = (
        "<b>Is a line bent?</b> The coefficient of (ln S)² in ln y, for each text and y. Above 0, growth pays less and "
        "less. Surely: p by Holm’s correction over the lines of one D."
    )
    rows = table.assign(tokens=table["training_tokens"].map(millions))
    return shown(rows, columns, caption=caption, data=table)


# ── The exponent in S at each D


Lines = dict[str, dict[int, LeftOut]]
"""Text → budget → its models, of the sizes that all budgets of the text have."""


def lines(texts: Sequence[Counts], ks: Sequence[int], family: str = TRANSFORMER) -> Lines:
    """The models of a family by text and budget, each document left out of all alike.

    Sizes that a budget lacks are left out of all. Raises FitError where fewer than three remain.
    """
    found = {}
    for text in texts:
        own = text.keep((text.models["family"] == family) & (text.models["seed"] == 0), ks)
        budgets = own.budgets(family)
        common = own.models.groupby("size")["budget"].transform("nunique") == len(budgets)
        if (sizes := own.models.loc[common, "size"].nunique()) < 3:
            what = f"{sizes} sizes are at every budget of {family} on {text.dataset}"
            raise FitError(what, "the ladder", "A law needs three: train them: rbp ladder train --family.")
        left = own.keep(common).left_out()
        found[text.dataset] = {b: left.keep(left.counts.models["budget"] == b) for b in budgets}
    return found


def by_budget(found: Lines, *, level: float = 0.95) -> pd.DataFrame:
    """The exponent in S at each budget, and how it differs from that of the smallest.

    Columns dataset, k, training_tokens, n, alpha; low, high: by documents; difference,
    difference_low, difference_high: α less that of the smallest budget, by the same documents.
    """
    check_level(level)
    rows = []
    for dataset, line_of in found.items():
        first = line_of[min(line_of)]
        for k, y_first in first.each():
            reference = exponents(first.counts.sizes, y_first)
            for budget, line in line_of.items():
                sizes = line.counts.sizes
                slopes = exponents(sizes, line.at(k))
                alpha, low, high = interval(slopes, level=level)
                difference, less, more = interval(slopes - reference, level=level)
                rows.append(
                    {"dataset": dataset, "k": k, "training_tokens": budget, "n": len(sizes)}
                    | {"alpha": alpha, "low": low, "high": high}
                    | {"difference": difference, "difference_low": less, "difference_high": more}
                )
    return pd.DataFrame(rows).astype({"k": "Int64"})


def along_ratio(found: Lines, per_parameter: float, *, level: float = 0.95) -> pd.DataFrame:
    """The exponent in S where every size has read `per_parameter` tokens for each of its parameters.

    ln y between two budgets is taken linear in ln D: no law of S and D is asked. Sizes whose D would lie outside the
    budgets are left out. Columns dataset, k, per_parameter, sizes, alpha, low, high (by documents).
    Raises ParameterError where fewer than three sizes remain.
    """
    rows = []
    for dataset, line_of in found.items():
        budgets = np.array(list(line_of), dtype=np.float64)
        sizes = next(iter(line_of.values())).counts.sizes
        wanted = per_parameter * sizes
        inside = (wanted >= budgets[0]) & (wanted <= budgets[-1])
        if inside.sum() < 3:
            what = f"{inside.sum()} sizes have a budget of {per_parameter:g} tokens for each parameter"
            near = np.sqrt(budgets[0] * budgets[-1]) / np.median(sizes)
            raise ParameterError(what, "per_parameter", f"Three are needed; try about {near:.0f}.")
        # the weight of each budget at each size, [budgets, sizes]: the corners of the interpolation
        place = np.log(wanted[inside])
        weights = np.array([np.interp(place, np.log(budgets), unit) for unit in np.eye(len(budgets))])
        for k, _ in next(iter(line_of.values())).each():
            y = np.stack([line.at(k)[:, inside] for line in line_of.values()])
            slopes = exponents(sizes[inside], np.einsum("bs,bds->ds", weights, y))
            alpha, low, high = interval(slopes, level=level)
            row = {"dataset": dataset, "k": k, "per_parameter": per_parameter, "sizes": int(inside.sum())}
            rows.append(row | {"alpha": alpha, "low": low, "high": high})
    return pd.DataFrame(rows).astype({"k": "Int64"})


def exponents_told(at_budget: pd.DataFrame, along: pd.DataFrame, k: int) -> dict[str, Any]:
    """What the page says of `by_budget` and `along_ratio`: at k on Wikipedia (or the first text), and over all."""
    datasets = list(at_budget["dataset"].unique())
    shown_on = "wikipedia" if "wikipedia" in datasets else datasets[0]
    one = of_measure(at_budget[at_budget["dataset"] == shown_on], k)
    last = at_budget[at_budget["training_tokens"] == at_budget["training_tokens"].max()]
    found = {"alpha.first": one["alpha"].iloc[0], "alpha.last": one["alpha"].iloc[-1]}
    found |= {"per_parameter": along["per_parameter"].iloc[0], "grow_cells": len(last)}
    return found | {"grows": int((last["difference_low"] > 0).sum())}


def exponents_shown(
    by_budget: pd.DataFrame, along: pd.DataFrame, per_parameter: float, *, level: float
) -> dict[str, Any]:
    """What `Page.figure` takes for the exponent in S against D, by text; apart from it, that along constant D/S.

    by_budget, along: the tables of `by_budget` and `along_ratio`. Marks beside each other are moved apart.
    """
    by_budget, along = (table.assign(measure=[measure_label(k) for k in table["k"]]) for table in (by_budget, along))
    measures = list(dict.fromkeys(by_budget["measure"]))
    budgets = sorted(by_budget["training_tokens"].unique())
    last = budgets[-1] * 3.2
    low = min(0.0, float(pd.concat([by_budget["low"], along["low"]]).min()))
    high = float(pd.concat([by_budget["high"], along["high"]]).max())

    def draw(ax: Axes, dataset: str) -> None:
        for i, measure in enumerate(measures):
            colour, marker = K_SHADES[i % len(K_SHADES)], MARKERS[i % len(MARKERS)]
            dodge = 1.05 ** (i - (len(measures) - 1) / 2)
            own = by_budget[(by_budget["dataset"] == dataset) & (by_budget["measure"] == measure)]
            x = own["training_tokens"].to_numpy(float) * dodge
            ax.plot(x, own["alpha"], marker, ls="-", lw=1.1, color=colour, ms=5, mew=0, label=measure, zorder=3)
            ax.vlines(x, own["low"], own["high"], color=colour, lw=1.3)
            there = along[(along["dataset"] == dataset) & (along["measure"] == measure)]
            ax.plot(last * dodge, there["alpha"], marker, color=colour, mfc="none", mew=1.4, ms=6, zorder=3)
            ax.vlines(np.full(len(there), last * dodge), there["low"], there["high"], color=colour, lw=1.3)
        ax.axhline(0, color=INK, lw=0.8)
        ax.axvline(np.sqrt(budgets[-1] * last), color=INK, lw=0.4, alpha=0.5)
        ax.set_xscale("log")
        ax.set_xticks([*budgets, last], [f"{budget / 1e6:g}" for budget in budgets] + [f"{per_parameter:g}·S"])
        ax.minorticks_off()
        ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        ax.set_xlabel("training tokens D (millions)")
        ax.set_ylabel("exponent α in S")
        ax.set_title(dataset_label(dataset))
        legend_below(ax)

    return {
        "figure": Panels(dataset_order(by_budget["dataset"]), draw, size=(4.6, 3.9)),
        "caption": f"<b>The exponent in S at each number of training tokens;</b> bars: {level:.0%} intervals by "
        f"documents. Hollow, at the right: along D = {per_parameter:g}·S, each size with its own budget, "
        "taken between the two nearest. CE: cross-entropy.",
        "alt": "The exponent in size against training tokens, a line for each measure, a panel for each text",
        "data": by_budget,
    }
