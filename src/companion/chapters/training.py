"""Size and training: Pythia's exponent over its training, our grids of sizes and tokens, and sweeps by others."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import f as f_distribution

from companion.chapters.families import LSTM, TRANSFORMER, exponents, measure_label, of_measure
from companion.evidence import outside, published
from companion.stats.cells import with_holm
from companion.stats.separability import interaction, left_of_two, power_interval
from ladder.shipped import TRIALS
from rbp.arrays import check_level
from rbp.errors import DataError, FitError, ParameterError
from rbp.figures.curves import MARKERS, curves, shades
from rbp.figures.style import INK, LABELS, Panels, label_line_ends, legend_below, log_axis, neg_log_rbp_label
from rbp.figures.wording import dataset_label
from rbp.laws.misfit import ADDITIVE, KAPLAN, PRODUCT
from rbp.laws.power import PowerLawFit, curvature, fit_power_law
from rbp.laws.resampling import interval, student
from rbp.laws.rivals import OF_BOTH
from rbp.laws.surface import fit_surface, missed_elsewhere
from rbp.measurements.counts import Counts, LeftOut
from rbp.models.training import PYTHIA_STEP
from rbp.report.display import Columns, shown

CELL = ["dataset", "k"]


# ── Pythia's snapshots on LAMBADA

ITEMS = 5153
"""The passages of LAMBADA, all answered by every model: each accuracy here is a whole number over it."""
TWIN = ("Pythia deduped", "pythia-2.8b")
"""The family and the model that are left out, as almost the same run as Pythia's own 2.8b.

Their perplexities on LAMBADA differ by 0.3% at the median; at other sizes the two families differ by 2.8% or more."""


def read_snapshots() -> pd.DataFrame:
    """Read Pythia's accuracy on LAMBADA without examples, at each step that was saved, without TWIN.

    Columns family ("Pythia", "Pythia deduped"), model, size, step, training_tokens, accuracy, by these.
    """
    table = outside.lambada()
    rows = table[table["family"].isin(["Pythia", "Pythia deduped"]) & (table["shots"] == 0)]
    rows = rows[(rows["family"] != TWIN[0]) | (rows["model"] != TWIN[1])]
    size = rows["model"].map(published.models().set_index("name")["non_embedding_params"])
    rows = rows.assign(size=size.astype("int64"), step=rows["step"].astype("int64"))
    rows["training_tokens"] = rows["step"] * PYTHIA_STEP
    columns = ["family", "model", "size", "step", "training_tokens", "accuracy"]
    return rows[columns].sort_values(["family", "step", "size"], ignore_index=True)


def fit_snapshots(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Fit the exponent in S of −ln accuracy at each step.

    Columns family, step, training_tokens, alpha, alpha_low, alpha_high, prefactor, r_squared, n. Steps at which a model
    has no success are left out: its −ln accuracy is infinite.
    """
    rows = []
    for (family, step), models in table.groupby(["family", "step"]):
        if models["accuracy"].min() == 0 or models["size"].nunique() < 4:
            continue
        models = models.assign(value=-np.log(models["accuracy"].to_numpy(float)))
        law = fit_power_law(models["size"], models["value"], level=level)
        row = {"family": family, "step": step, "training_tokens": models["training_tokens"].iloc[0]}
        names = ("alpha", "alpha_low", "alpha_high", "prefactor", "r_squared", "n")
        rows.append(row | {name: getattr(law, name) for name in names})
    return pd.DataFrame(rows)


def exponent_change(table: pd.DataFrame, early: int, late: int, *, level: float = 0.95) -> PowerLawFit:
    """Fit y_late/y_early against S: its exponent is the growth of α between two steps of the same models.

    table: the snapshots of one family. Each model is compared with itself, so its constant deviation drops out.
    Raises ParameterError for a step without a success of every model.
    """
    rows = table[table["accuracy"] > 0]
    rows = rows.assign(y=-np.log(rows["accuracy"].to_numpy(float)))
    wide = rows.pivot_table(index="size", columns="step", values="y").dropna(axis="columns")
    if missing := [step for step in (early, late) if step not in wide]:
        available = ", ".join(map(str, wide.columns))
        raise ParameterError(f"not all models have a success at step {missing[0]}", "step", f"All do at: {available}.")
    return fit_power_law(wide.index.to_numpy(float), wide[late] / wide[early], level=level)


ABOVE = {"all": 0.0, "above 10⁸": 1e8, "above 10⁹": 1e9}
"""Groups of models by the least number of parameters."""


def exponent_changes(table: pd.DataFrame, steps: Sequence[int], late: int, *, level: float = 0.95) -> pd.DataFrame:
    """Compute `exponent_change` from each of `steps` to `late`, for all models of a family and for its large ones.

    Columns models (a group of ABOVE), n, step, alpha, alpha_low, alpha_high, r_squared (of the group's law at that
    step), change, low, high. Groups of fewer than three models are left out.
    """
    rows = []
    for group, least in ABOVE.items():
        models = table[table["size"] > least]
        if models["size"].nunique() < 3:
            continue
        for step in steps:
            change, at_step = exponent_change(models, step, late, level=level), models[models["step"] == step]
            law = fit_power_law(at_step["size"], -np.log(at_step["accuracy"].to_numpy(float)), level=level)
            row = {"models": group, "n": law.n, "step": step}
            row |= {name: getattr(law, name) for name in ("alpha", "alpha_low", "alpha_high", "r_squared")}
            rows.append(row | {"change": change.alpha, "low": change.alpha_low, "high": change.alpha_high})
    return pd.DataFrame(rows)


def snapshot_statistics(fits: pd.DataFrame, changes: pd.DataFrame, late: int) -> dict[str, Any]:
    """Summarise one family's `fit_snapshots`, and its `exponent_changes` up to step `late`.

    Of the steps in `changes` the first is called early, the last between, and the second earlier.
    """
    steps = sorted(int(step) for step in changes["step"].unique())
    named = {"early": steps[0], "earlier": steps[min(1, len(steps) - 1)], "between": steps[-1]}
    by_step = fits.set_index("step")
    values: dict[str, Any] = {f"step.{name}": step for name, step in named.items()}
    values |= {"step.late": late, "r_squared.early": by_step["r_squared"][named["early"]]}
    values |= {"alpha.early": by_step["alpha"][named["early"]], "alpha.late": by_step["alpha"][late]}
    rows = {(row["models"], row["step"]): row for row in changes.to_dict("records")}
    every, large, largest = ABOVE
    for name, group, step in (("", every, "early"), ("large.earlier.", large, "earlier"), ("large.", large, "between")):
        if row := rows.get((group, named[step])):
            columns = {"change": "change", "change_low": "low", "change_high": "high"}
            values |= {f"{name}{key}": row[column] for key, column in columns.items()}
    if row := rows.get((largest, named["early"])):
        values |= {f"largest.{name}": row[name] for name in ("alpha", "alpha_low", "alpha_high")}
    return values


_LAWS, _OVER = "The line after so many steps", "Its exponent over training"


def snapshot_panels(snapshots: pd.DataFrame, fits: pd.DataFrame, steps: Sequence[int]) -> Panels:
    """Draw one family over its training: points and laws at some steps, and the exponent at each step from 1,000 on.

    snapshots: `read_snapshots`; fits: `fit_snapshots`; both of one family.
    """
    succeeding, laws = snapshots[snapshots["accuracy"] > 0], fits.set_index("step")
    colours = shades(step for step in steps if step in laws.index)

    def lines(ax: Axes) -> None:
        labels = {}
        for step, colour in colours.items():
            points, law = succeeding[succeeding["step"] == step].sort_values("size"), laws.loc[step]
            size = points["size"].to_numpy(float)
            line = law["prefactor"] * size ** -law["alpha"]
            ax.plot(size, line, color=colour, lw=1.3)
            ax.plot(size, -np.log(points["accuracy"].to_numpy(float)), "o", color=colour, ms=4.5, mew=0)
            labels[f"{step:,}"] = (float(size[-1]), float(line[-1]), colour)
        ax.set_xscale("log")
        ax.set_yscale("log")
        log_axis(ax, "x", plain=False)
        log_axis(ax, "y")
        ax.set_xlabel(LABELS["size"])
        ax.set_ylabel("−ln accuracy (LAMBADA)")
        ax.set_title(_LAWS)
        label_line_ends(ax, labels)

    def over_training(ax: Axes) -> None:
        late = laws[laws.index >= 1000]
        ax.plot(late.index, late["alpha"], "o-", color=INK, ms=4, mew=0, lw=1.2)
        ax.vlines(late.index, late["alpha_low"], late["alpha_high"], color=INK, lw=1)
        for step, colour in colours.items():
            ax.plot(step, laws["alpha"][step], "o", color=colour, ms=8, mew=0, zorder=3)
        ax.axhline(0, color=INK, lw=0.8)
        ax.set_xscale("log")
        log_axis(ax, "x")
        ax.set_xlabel("training step")
        ax.set_ylabel("exponent α in S")
        ax.set_title(_OVER)

    draw = {_LAWS: lines, _OVER: over_training}
    return Panels(list(draw), lambda ax, key: draw[key](ax), size=(4.6, 2.9))


# ── Others' runs over sizes and tokens

MEASURES = ("rank", "loss")


def read_runs(architecture: str = "Llama") -> pd.DataFrame:
    """Read the xLSTM runs of one architecture that did not diverge, with `rank` (−ln RBP_1) next to `loss`.

    Raises ParameterError for an unknown architecture.
    """
    table = outside.xlstm_runs().query("~diverged")
    runs = table[table["architecture"] == architecture]
    if runs.empty:
        available = ", ".join(sorted(table["architecture"].unique()))
        raise ParameterError(f"there are no runs of {architecture!r}", "architecture", f"Choose one of: {available}.")
    return runs.assign(rank=-np.log(runs["accuracy"]))


def fit_without_sweeps(table: pd.DataFrame) -> pd.DataFrame:
    """Fit every form in turn without each sweep, and measure what it misses there.

    table: `read_runs`. Columns measure, form, missed: per cent of the deviance of the sweeps left out, in all, and
    by_sweep (see `missed_elsewhere`); and two local exponents in S of y at the geometric means of S and D: at_d, at
    fixed D, and at_ratio, along constant tokens per parameter.
    """
    middle = (_middle(table["size"]), _middle(table["training_tokens"]))
    rows = []
    for measure, form in product(MEASURES, OF_BOTH):
        points = table.assign(value=table[measure])
        law, missed = fit_surface(points, form), 100 * missed_elsewhere(points, "sweep", form)
        rows.append(
            {"measure": measure, "form": form, "missed": missed.sum(), "by_sweep": tuple(missed)}
            | {"at_d": law.exponent(*middle).item(), "at_ratio": law.exponent(*middle, 1.0).item()}
        )
    return pd.DataFrame(rows)


def _middle(column: "pd.Series[Any]") -> float:
    return float(np.exp(np.log(column.to_numpy(float)).mean()))


def sweep_statistics(table: pd.DataFrame, *, level: float) -> dict[str, Any]:
    """Summarise `fit_without_sweeps`: whether the sum misses least, and its error over the error of Kaplan's form.

    The interval of this ratio takes sweeps as the units.
    """
    rows, named = table.set_index(["measure", "form"]), {PRODUCT: "product", ADDITIVE: "sum", KAPLAN: "kaplan"}
    values: dict[str, Any] = {"llama.sum_closest": 0}
    values |= {f"missed.llama.loss.{name}": rows["missed"]["loss", form] for form, name in named.items()}
    values |= {f"llama.rank.{name}.kaplan": rows[name]["rank", KAPLAN] for name in ("at_d", "at_ratio")}
    for measure in MEASURES:
        missed, by_sweep = rows["missed"][measure], rows["by_sweep"][measure]
        values["llama.sum_closest"] += int(missed[ADDITIVE] == missed.min())
        ratio = np.log(np.array(by_sweep[ADDITIVE]) / np.array(by_sweep[KAPLAN])) / 2
        log_interval = student(ratio.mean(), ratio.var(ddof=1) / len(ratio), len(ratio) - 1, level=level)
        names = (f"llama.{measure}.{name}" for name in ("ratio", "ratio_low", "ratio_high"))
        values |= dict(zip(names, map(float, np.exp(log_interval)), strict=True)) | {"llama.sweeps": len(ratio)}
    return values


# ── Our grids: is y a sum or a product of something of S and something of D?


def _cells(points: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Group the rows by dataset and k; cross-entropy has no k."""
    key: Any
    for key, rows in points.groupby(CELL, sort=False, dropna=False):
        yield {"dataset": str(key[0]), "k": None if pd.isna(key[1]) else int(key[1])}, rows


def separability_tests(
    texts: Sequence[Counts],
    ks: Sequence[int],
    families: Sequence[str],
    trials: Sequence[Counts] = (),
    *,
    level: float = 0.95,
) -> pd.DataFrame:
    """Test y = u(S) + v(D), and ln y = u(S) + v(D), for any u and v: seed 0's grid against the seeds' variance.

    trials: more models with other seeds, of the families' cells, as `shipped.counted` returns trials.
    A row for each family, text and measure (k missing: cross-entropy), by these: family, dataset, k; p_sum, p_product:
    of `interaction`; off_sum, off_product: by how much the best one misses y (root mean square, per cent); off_seeds:
    how far seeds scatter; times_sum: how many times larger the seeds' variance would have to be for a sum to pass;
    power, low, high, p_power: `power_interval`; df_num, df_den. Families without seeds or a whole grid are left out.
    """
    rows = []
    for family in families:
        for text in texts:
            models = text.keep(text.models["family"] == family, ks).table()
            for trial in (trial for trial in trials if trial.dataset == text.dataset):
                again = (trial.models["family"] == family + TRIALS) & (trial.models["seed"] > 0)
                models = pd.concat([models, trial.keep(again, ks).table()])
            for cell, y in _cells(models.sort_values("k", kind="stable")):
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
                spread = [np.log(repeats.astype(float)) for repeats in seeds]
                scatter = sum(((logarithms - logarithms.mean()) ** 2).sum() for logarithms in spread) / added.df_den
                rows.append(
                    {"family": family, **cell, "p_sum": added.p, "p_product": multiplied.p, "times_sum": added.f / cut}
                    | {f"off_{name}": 100 * np.sqrt((residuals**2).mean()) for name, residuals in off.items()}
                    | {"off_seeds": 100 * np.sqrt(scatter)}
                    | {"power": best.estimate, "low": best.low, "high": best.high, "p_power": best.p}
                    | {"df_num": added.df_num, "df_den": added.df_den}
                )
    if not rows:
        raise DataError("no family has a grid of sizes and tokens and a model trained again", "the ladder")
    return pd.DataFrame(rows).astype({"k": "Int64"})


def separability_statistics(table: pd.DataFrame, *, level: float = 0.95) -> dict[str, Any]:
    """Summarise `separability_tests`."""
    alpha = 1 - level
    values: dict[str, Any] = {"apart.cells": len(table)}
    for name in ("sum", "product"):
        p = table[f"p_{name}"]
        values[f"{name}.rejected"] = int((p < alpha).sum())
        off = table[f"off_{name}"]
        values |= {f"{name}.off": off.median(), f"{name}.off_min": off.min(), f"{name}.off_max": off.max()}
    values["sum.holm"] = int(with_holm(table.assign(p=table["p_sum"]), level)["alarm_holm"].sum())
    losses = table["k"].isna()
    values |= {"apart.loss_cells": int(losses.sum()), "sum.loss_rejected": int((table["p_sum"] < alpha)[losses].sum())}
    values["seeds.off"] = table["off_seeds"].median()
    return values | {"power.none": int(table["low"].isna().sum()), "sum.times": table["times_sum"].median()}


def separability_table(table: pd.DataFrame, *, level: float, caption: str) -> dict[str, Any]:
    """List `separability_tests`, for `Page.table`."""
    short = {TRANSFORMER: "transformer", LSTM: "LSTM"}  # for a phone
    rows = table.assign(measure=[measure_label(k) for k in table["k"]], short=table["family"].map(short))
    columns: Columns = {
        ("dataset", "short"): ("dataset, family", "{}, {}"),
        "measure": "y",
        "p_sum": ("p, sum", "{:.2g}"),
        "p_product": ("p, product", "{:.2g}"),
        "off_sum": ("sum misses, %", "{:.1f}"),
        "off_product": ("product misses, %", "{:.1f}"),
        "off_seeds": ("seeds scatter, %", "{:.1f}"),
        ("low", "high"): (f"λ not rejected, {level:.0%}", "[{:.1f}, {:.1f}]"),
    }
    return shown(rows, columns, caption=caption, data=table)


# ── The points, and their bends


def surface_panels(points: pd.DataFrame, k: int, datasets: Sequence[str]) -> Panels:
    """Draw −ln RBP_k against S, a line of points for each D, by dataset, with the curves of one fitted sum.

    points: `families.tabulate_points`.
    """
    rows = of_measure(points[points["dataset"].isin(datasets)], k)
    budgets = {f"D = {print_millions(budget)}": float(budget) for budget in sorted(rows["training_tokens"].unique())}
    rows = rows.assign(line="D = " + rows["training_tokens"].map(print_millions))
    curves_of_sum = []
    for dataset, grid in rows.groupby("dataset"):
        sizes = np.geomspace(grid["size"].min(), grid["size"].max(), 60)
        with suppress(FitError):
            law = fit_surface(grid, ADDITIVE)
            for name in grid["line"].unique():
                value = law.predict(sizes, budgets[name])
                curves_of_sum.append(pd.DataFrame({"dataset": dataset, "line": name, "size": sizes, "value": value}))
    colours = shades(int(budget) for budget in budgets.values())
    return curves(
        rows.sort_values("training_tokens"), "size", "value", labels=(LABELS["size"], neg_log_rbp_label(k)),
        styles={name: (colours[int(budget)], "o") for name, budget in budgets.items()},
        fitted=curves_of_sum, name_ends=True, log="xy", size=(4.6, 2.9),
    )  # fmt: skip


def grid_statistics(points: pd.DataFrame, bends: pd.DataFrame) -> dict[str, Any]:
    """Summarise the grid (`families.tabulate_points`) and its `fit_bends`."""
    counted, budgets = count_bends(bends), points["training_tokens"] / 1e6
    first, last = counted.iloc[0], counted.iloc[-1]
    counts = {"down.lines": first["lines"], "down.first": first["down"], "up.significantly": last["significantly_up"]}
    values = {"sizes": points["size"].nunique(), "budget.first": budgets.min(), "budget.last": budgets.max()}
    return values | {name: int(value) for name, value in counts.items()}


def print_millions(tokens: float) -> str:
    """Print a number of tokens in millions: 0.5 M."""
    return f"{tokens / 1e6:g} M"


def fit_bends(points: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Fit the coefficient of (ln S)² at each D, of each text and k, with Holm's correction over the lines of a D.

    points: `families.tabulate_points`. Columns training_tokens, dataset, k, n, coefficient, low, high, p, alarm,
    p_holm, alarm_holm. Lines without a test, such as lines of three sizes, are left out.
    """
    parts = []
    names = ("n", "coefficient", "low", "high", "p")
    for tokens, grid in points.groupby("training_tokens"):
        rows = []
        for cell, line in _cells(grid):
            with suppress(FitError):
                bend = curvature(line["size"], line["value"], level=level)
                rows.append({"training_tokens": tokens, **cell} | {name: getattr(bend, name) for name in names})
        parts.append(with_holm(pd.DataFrame(rows, columns=["training_tokens", *CELL, *names]), level))
    return pd.concat(parts, ignore_index=True).astype({"k": "Int64"})


def count_bends(table: pd.DataFrame) -> pd.DataFrame:
    """Count `fit_bends` at each D: training_tokens, lines, down, up, low, high.

    Also significantly_down and significantly_up, after Holm. low, high: the coefficients' ends.
    """
    up = table["coefficient"] > 0
    significant = table["alarm_holm"]
    marked = table.assign(up=up, down=~up, significantly_up=up & significant, significantly_down=~up & significant)
    counts = {name: (name, "sum") for name in ("down", "significantly_down", "up", "significantly_up")}
    extremes = {"low": ("coefficient", "min"), "high": ("coefficient", "max")}
    return marked.groupby("training_tokens").agg(lines=("n", "size"), **counts, **extremes).reset_index()


# ── The exponent in S at each D

BudgetLines = dict[str, dict[int, LeftOut]]
"""Text → budget → its models, of the sizes that all budgets of the text have."""


def group_by_budget(texts: Sequence[Counts], ks: Sequence[int], family: str = TRANSFORMER) -> BudgetLines:
    """Group the models of a family by dataset and budget, with each document left out of all alike.

    Sizes that a budget lacks are left out of all. Raises FitError where fewer than three remain.
    """
    lines = {}
    for text in texts:
        models = text.keep((text.models["family"] == family) & (text.models["seed"] == 0), ks)
        budgets = models.budgets(family)
        common = models.models.groupby("size")["budget"].transform("nunique") == len(budgets)
        if (sizes := models.models.loc[common, "size"].nunique()) < 3:
            fault = f"{sizes} sizes were trained at every budget of {family} on {text.dataset}"
            raise FitError(fault, "the ladder", "A law needs three. Train more: rbp ladder train --family.")
        left = models.keep(common).left_out()
        lines[text.dataset] = {b: left.keep(left.counts.models["budget"] == b) for b in budgets}
    return lines


def budget_exponents(lines: BudgetLines, *, level: float = 0.95) -> pd.DataFrame:
    """Fit the exponent in S at each budget, and its difference from the smallest budget's.

    Columns dataset, k, training_tokens, n, alpha; low, high: by documents; difference, difference_low,
    difference_high: α less α at the smallest budget, by the same documents.
    """
    check_level(level)
    rows = []
    for dataset, line_of in lines.items():
        first = line_of[min(line_of)]
        for k, y_first in first.by_metric():
            reference = exponents(first.counts.sizes, y_first)
            for budget, line in line_of.items():
                sizes = line.counts.sizes
                slopes = exponents(sizes, line.at(k))
                alpha, low, high = interval(slopes, first.df, level=level)
                difference, less, more = interval(slopes - reference, first.df, level=level)
                rows.append(
                    {"dataset": dataset, "k": k, "training_tokens": budget, "n": len(sizes)}
                    | {"alpha": alpha, "low": low, "high": high}
                    | {"difference": difference, "difference_low": less, "difference_high": more}
                )
    return pd.DataFrame(rows).astype({"k": "Int64"})


def ratio_exponents(lines: BudgetLines, per_parameter: float, *, level: float = 0.95) -> pd.DataFrame:
    """Fit the exponent in S where every size has read `per_parameter` tokens for each of its parameters.

    ln y between two budgets is taken as linear in ln D, without a law of S and D. Sizes whose D would lie outside the
    budgets are left out. Columns dataset, k, per_parameter, sizes, alpha, low, high (by documents).
    Raises ParameterError where fewer than three sizes remain.
    """
    rows = []
    for dataset, line_of in lines.items():
        budgets = np.array(list(line_of), dtype=np.float64)
        sizes = next(iter(line_of.values())).counts.sizes
        tokens = per_parameter * sizes
        inside = (tokens >= budgets[0]) & (tokens <= budgets[-1])
        if inside.sum() < 3:
            fault = f"{inside.sum()} sizes have a budget of {per_parameter:g} tokens for each parameter"
            near = np.sqrt(budgets[0] * budgets[-1]) / np.median(sizes)
            raise ParameterError(fault, "per_parameter", f"Three are needed; try about {near:.0f}.")
        # the weight of each budget at each size, [budgets, sizes]: the corners of the interpolation
        place = np.log(tokens[inside])
        weights = np.array([np.interp(place, np.log(budgets), unit) for unit in np.eye(len(budgets))])
        first = next(iter(line_of.values()))
        for k, _ in first.by_metric():
            y = np.stack([line.at(k)[:, inside] for line in line_of.values()])
            slopes = exponents(sizes[inside], np.einsum("bs,bds->ds", weights, y))
            alpha, low, high = interval(slopes, first.df, level=level)
            row = {"dataset": dataset, "k": k, "per_parameter": per_parameter, "sizes": int(inside.sum())}
            rows.append(row | {"alpha": alpha, "low": low, "high": high})
    return pd.DataFrame(rows).astype({"k": "Int64"})


def exponent_statistics(at_budget: pd.DataFrame, along: pd.DataFrame, k: int) -> dict[str, Any]:
    """Summarise `budget_exponents` and `ratio_exponents`: at k on Wikipedia (or the first dataset), and over all."""
    datasets = list(at_budget["dataset"].unique())
    example = of_measure(
        at_budget[at_budget["dataset"] == ("wikipedia" if "wikipedia" in datasets else datasets[0])], k
    )
    last = at_budget[at_budget["training_tokens"] == at_budget["training_tokens"].max()]
    values = {"alpha.first": example["alpha"].iloc[0], "alpha.last": example["alpha"].iloc[-1]}
    values |= {"per_parameter": along["per_parameter"].iloc[0], "grow_cells": len(last)}
    return values | {"grows": int((last["difference_low"] > 0).sum())}


def exponent_panels(
    by_budget: pd.DataFrame, along: pd.DataFrame, per_parameter: float, datasets: Sequence[str]
) -> Panels:
    """Draw the exponent in S against D, by dataset; hollow and apart from it, along constant D/S.

    by_budget, along: `budget_exponents` and `ratio_exponents`. Marks at one D are moved apart.
    """
    by_budget, along = (table.assign(measure=table["k"].fillna(0).astype(int)) for table in (by_budget, along))
    colours = {0: INK} | shades(measure for measure in by_budget["measure"].unique() if measure)
    budgets = sorted(by_budget["training_tokens"].unique())
    last = budgets[-1] * 3.2
    low = min(0.0, float(pd.concat([by_budget["low"], along["low"]]).min()))
    high = float(pd.concat([by_budget["high"], along["high"]]).max())

    def draw(ax: Axes, dataset: str) -> None:
        for i, (measure, colour) in enumerate(colours.items()):
            label, marker, dodge = measure_label(measure or None), MARKERS[i], 1.05 ** (i - (len(colours) - 1) / 2)
            line, hollow = (
                table[(table["dataset"] == dataset) & (table["measure"] == measure)] for table in (by_budget, along)
            )
            x = line["training_tokens"].to_numpy(float) * dodge
            ax.plot(x, line["alpha"], marker, ls="-", lw=1.1, color=colour, ms=5, mew=0, label=label, zorder=3)
            ax.vlines(x, line["low"], line["high"], color=colour, lw=1.3)
            ax.plot(last * dodge, hollow["alpha"], marker, color=colour, mfc="none", mew=1.4, ms=6, zorder=3)
            ax.vlines(np.full(len(hollow), last * dodge), hollow["low"], hollow["high"], color=colour, lw=1.3)
        ax.axhline(0, color=INK, lw=0.8)
        ax.axvline(np.sqrt(budgets[-1] * last), color=INK, lw=0.8, ls=":")
        ax.set_xscale("log")
        ax.set_xticks([*budgets, last], [f"{budget / 1e6:g}" for budget in budgets] + [f"{per_parameter:g}·S"])
        ax.minorticks_off()
        ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        ax.set_xlabel("training tokens D (millions)")
        ax.set_ylabel("exponent α in S")
        ax.set_title(dataset_label(dataset))
        legend_below(ax)

    return Panels(list(datasets), draw, size=(4.6, 2.9))
