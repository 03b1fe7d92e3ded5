"""Size and training: the surface over S and D of one family, and what becomes of the exponent in S."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from rbp.core.arrays import Reals, check_level
from rbp.core.errors import FitError, ParameterError
from rbp.paper.grid import TRANSFORMER, Drawn, Grid, drawn, interval
from rbp.paper.ladder import exponents
from rbp.stats.compare import aicc
from rbp.stats.power_law import fit_power_law
from rbp.stats.surface import ADDITIVE, FORMS, PRODUCT, RAISED, Surface, fit_surface, leave_one_out

_PARAMETERS = {ADDITIVE: 5, PRODUCT: 3, RAISED: 4}
CELL = ["dataset", "measure"]


def surfaces(points: pd.DataFrame, form: str = ADDITIVE) -> dict[tuple[str, str], Surface]:
    """The surface of each text and measure of `points` (`Grid.points`); cells that determine none are left out."""
    found = {}
    for (dataset, measure), own in points.groupby(CELL, sort=False):
        with suppress(FitError):
            found[str(dataset), str(measure)] = fit_surface(own, form)
    return found


def forms(points: pd.DataFrame) -> pd.DataFrame:
    """Each form of the law on each text and measure: how well it fits, and how well it foretells what it did not see.

    Columns dataset, measure, form, n, alpha, beta, offset, r_squared (of ln y), scatter (the residuals of ln y, per
    cent), aicc; unseen_budget, unseen_size: fitted without the largest D (or S), the root mean square of the errors of
    ln y there, per cent; bias_budget, bias_size: their mean, foretold less measured. Missing where a form has no fit.
    """
    rows = []
    for (dataset, measure), own in points.groupby(CELL, sort=False):
        for form in FORMS:
            row: dict[str, Any] = {"dataset": dataset, "measure": measure, "form": form}
            with suppress(FitError):
                fit = fit_surface(own, form)
                row |= {"n": fit.n, "alpha": fit.alpha, "beta": fit.beta, "offset": fit.offset}
                row |= {"r_squared": fit.explained, "scatter": 100 * np.sqrt(fit.dispersion)}
                row["aicc"] = aicc(fit.deviance, fit.n, _PARAMETERS[form] + 1)
            for name, column in (("budget", "training_tokens"), ("size", "size")):
                with suppress(FitError):
                    off = _unseen(own, form, column)
                    row[f"unseen_{name}"] = 100 * np.sqrt(np.mean(off**2))
                    row[f"bias_{name}"] = 100 * off.mean()
            rows.append(row)
    columns = ["n", "alpha", "beta", "offset", "r_squared", "scatter", "aicc"]
    unseen = ["unseen_budget", "bias_budget", "unseen_size", "bias_size"]
    return pd.DataFrame(rows, columns=[*CELL, "form", *columns, *unseen])


def _unseen(points: pd.DataFrame, form: str, column: str) -> Reals:
    """ln of foretold over measured at the largest value of a column, by a fit without it."""
    out = points[column] == points[column].max()
    there = points[out]
    told = fit_surface(points[~out], form).predict(there["size"], there["training_tokens"])
    return np.log(told / there["value"].to_numpy(dtype=np.float64))


def best(table: pd.DataFrame, by: str) -> pd.Series:
    """The form with the least of a column of `forms`, by text and measure."""
    ordered = table.dropna(subset=by).sort_values(by, kind="stable")
    return ordered.drop_duplicates(CELL).set_index(CELL)["form"].sort_index()


def jackknifed(points: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The sum form's exponents, with intervals that leave out one size at a time.

    Rows for each text and measure: alpha, beta; fixed and along, the local exponent in S of y at the largest D and the
    geometric mean of S, at fixed D and at constant tokens per parameter. Columns dataset, measure, quantity, estimate,
    se, low, high, units.
    """
    parts = []
    for (dataset, measure), own in points.groupby(CELL, sort=False):
        size, tokens = float(np.exp(np.log(own["size"]).mean())), float(own["training_tokens"].max())

        def estimate(rows: pd.DataFrame, at: tuple[float, float] = (size, tokens)) -> dict[str, float]:
            fit = fit_surface(rows)
            both = {"fixed": fit.exponent(*at).item(), "along": fit.exponent(*at, along=1).item()}
            return {"alpha": fit.alpha, "beta": fit.beta} | both

        with suppress(FitError):
            parts.append(leave_one_out(own, "size", estimate, level=level).assign(dataset=dataset, measure=measure))
    columns = [*CELL, "quantity", "estimate", "se", "low", "high", "units"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def by_budget(
    grid: Grid,
    ks: Sequence[int],
    *,
    family: str = TRANSFORMER,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """The exponent in S at each budget, and how it differs from that of the smallest, on the sizes that all have.

    Columns dataset, measure, training_tokens, n, alpha; low, high: from documents drawn anew; scatter_low,
    scatter_high: from the scatter about the line; r_squared; difference, difference_low, difference_high: α less that
    of the smallest budget, the same documents drawn for both. Sizes that a budget lacks are left out of all.
    """
    check_level(level)
    rows = []
    for dataset in grid.datasets:
        lines = _lines(grid, dataset, family, ks, resamples, seed)
        for measure in next(iter(lines.values())).whole:
            slopes = {budget: exponents(line.sizes, line.draws[measure]) for budget, line in lines.items()}
            first = min(lines)
            alphas = {budget: _alpha(line.sizes, line.whole[measure]) for budget, line in lines.items()}
            for budget, line in lines.items():
                fit = fit_power_law(line.sizes, np.exp(line.whole[measure]), level=level)
                low, high = interval(slopes[budget], level)
                less, more = interval(slopes[budget] - slopes[first], level)
                rows.append(
                    {"dataset": dataset, "measure": measure, "training_tokens": budget, "n": fit.n}
                    | {"alpha": fit.alpha, "low": low, "high": high}
                    | {"scatter_low": fit.alpha_low, "scatter_high": fit.alpha_high, "r_squared": fit.r_squared}
                    | {"difference": alphas[budget] - alphas[first], "difference_low": less, "difference_high": more}
                )
    return pd.DataFrame(rows)


def along_ratio(
    grid: Grid,
    ks: Sequence[int],
    per_parameter: float,
    *,
    family: str = TRANSFORMER,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """The exponent in S where every size has read `per_parameter` tokens for each of its parameters.

    ln y between two budgets is taken linear in ln D: no law of S and D is asked. Sizes whose D would lie outside the
    budgets are left out. Columns dataset, measure, per_parameter, sizes, alpha, low, high (from documents drawn anew).
    Raises ParameterError where fewer than three sizes remain.
    """
    rows = []
    for dataset in grid.datasets:
        lines = _lines(grid, dataset, family, ks, resamples, seed)
        budgets = np.array(list(lines), dtype=np.float64)
        sizes = next(iter(lines.values())).sizes
        wanted = per_parameter * sizes
        inside = (wanted >= budgets[0]) & (wanted <= budgets[-1])
        if inside.sum() < 3:
            what = f"{inside.sum()} sizes have a budget of {per_parameter:g} tokens for each parameter"
            near = np.sqrt(budgets[0] * budgets[-1]) / np.median(sizes)
            raise ParameterError(what, "per_parameter", f"Three are needed; try about {near:.0f}.")
        # the weight of each budget at each size, [budgets, sizes]: the corners of the interpolation
        place = np.log(wanted[inside])
        weights = np.array([np.interp(place, np.log(budgets), unit) for unit in np.eye(len(budgets))])
        for measure in next(iter(lines.values())).whole:
            at = np.stack([line.whole[measure][inside] for line in lines.values()])
            drawn_at = np.stack([line.draws[measure][:, inside] for line in lines.values()])
            slopes = exponents(sizes[inside], np.einsum("bs,bds->ds", weights, drawn_at))
            low, high = interval(slopes, level)
            alpha = _alpha(sizes[inside], (weights * at).sum(axis=0))
            row = {"dataset": dataset, "measure": measure, "per_parameter": per_parameter, "sizes": int(inside.sum())}
            rows.append(row | {"alpha": alpha, "low": low, "high": high})
    return pd.DataFrame(rows)


def _alpha(sizes: Reals, y: Reals) -> float:
    return float(exponents(sizes, y[None])[0])


def _lines(grid: Grid, dataset: str, family: str, ks: Sequence[int], resamples: int, seed: int) -> dict[int, Drawn]:
    """The models of a family on a text, by budget: of the sizes that every budget has."""
    there = {b: grid.lines[family, b][dataset] for b in grid.budgets(family) if dataset in grid.lines[family, b]}
    common = set.intersection(*(set(hits.sizes.tolist()) for hits in there.values())) if there else set()
    if len(common) < 3:
        what = f"{len(common)} sizes are at every budget of {family} on {dataset}"
        raise FitError(what, "grid", "A law needs three: train them: rbp ladder train --family.")
    found = {budget: drawn(hits, ks, resamples=resamples, seed=seed) for budget, hits in there.items()}
    return {b: one.take([i for i, s in enumerate(one.sizes) if s in common]) for b, one in found.items()}
