"""Size and training: the surface over S and D of one family, and what becomes of the exponent in S."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from rbp.core.arrays import Reals, check_level
from rbp.core.errors import FitError, ParameterError
from rbp.evidence.document_hits import Hits
from rbp.paper.families import TRANSFORMER, Drawn, Grid, drawn, interval
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
    logs: Reals = np.log(told / there["value"].to_numpy(dtype=np.float64))
    return logs


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
            parts.append(
                leave_one_out(own, "size", estimate, level=level).assign(dataset=str(dataset), measure=str(measure))
            )
    columns = [*CELL, "quantity", "estimate", "se", "low", "high", "units"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


Lines = dict[str, dict[int, Drawn]]
"""Text → budget → its models, of the sizes that all budgets of the text have."""


def lines(grid: Grid, ks: Sequence[int], family: str = TRANSFORMER, *, resamples: int = 1000, seed: int = 0) -> Lines:
    """The models of a family by text and budget, with the documents drawn anew, alike for all.

    Sizes that a budget lacks are left out of all. Raises FitError where fewer than three remain.
    """
    found = {}
    for dataset in grid.datasets:
        there = {b: grid.lines[family, b][dataset] for b in grid.budgets(family) if dataset in grid.lines[family, b]}
        common = set.intersection(*(set(hits.sizes.tolist()) for hits in there.values())) if there else set()
        if len(common) < 3:
            what = f"{len(common)} sizes are at every budget of {family} on {dataset}"
            raise FitError(what, "grid", "A law needs three: train them: rbp ladder train --family.")
        every = drawn(_side_by_side(list(there.values())), ks, resamples=resamples, seed=seed)
        budget = np.repeat(list(there), [len(hits.models) for hits in there.values()])
        kept = np.isin(every.sizes, list(common))
        found[dataset] = {b: every.take(np.flatnonzero(kept & (budget == b)).tolist()) for b in there}
    return found


def _side_by_side(parts: Sequence[Hits]) -> Hits:
    """Hits of the same documents as one, so that the documents are drawn once."""
    return replace(
        parts[0],
        models=tuple(model for hits in parts for model in hits.models),
        sizes=np.concatenate([hits.sizes for hits in parts]),
        hits=np.concatenate([hits.hits for hits in parts], axis=1),
        nll=np.concatenate([hits.nll for hits in parts], axis=1),
    )


def by_budget(found: Lines, *, level: float = 0.95) -> pd.DataFrame:
    """The exponent in S at each budget, and how it differs from that of the smallest.

    Columns dataset, measure, training_tokens, n, alpha; low, high: from documents drawn anew; scatter_low,
    scatter_high: from the scatter about the line; r_squared; difference, difference_low, difference_high: α less that
    of the smallest budget, the same documents drawn for both.
    """
    check_level(level)
    rows = []
    for dataset, line_of in found.items():
        first = line_of[min(line_of)]
        for measure in first.whole:
            reference = _alpha(first.sizes, first.whole[measure])
            drawn_first = exponents(first.sizes, first.draws[measure])
            for budget, line in line_of.items():
                fit = fit_power_law(line.sizes, np.exp(line.whole[measure]), level=level)
                slopes = exponents(line.sizes, line.draws[measure])
                low, high = interval(slopes, level)
                less, more = interval(slopes - drawn_first, level)
                rows.append(
                    {"dataset": dataset, "measure": measure, "training_tokens": budget, "n": fit.n}
                    | {"alpha": fit.alpha, "low": low, "high": high}
                    | {"scatter_low": fit.alpha_low, "scatter_high": fit.alpha_high, "r_squared": fit.r_squared}
                    | {"difference": fit.alpha - reference, "difference_low": less, "difference_high": more}
                )
    return pd.DataFrame(rows)


def along_ratio(found: Lines, per_parameter: float, *, level: float = 0.95) -> pd.DataFrame:
    """The exponent in S where every size has read `per_parameter` tokens for each of its parameters.

    ln y between two budgets is taken linear in ln D: no law of S and D is asked. Sizes whose D would lie outside the
    budgets are left out. Columns dataset, measure, per_parameter, sizes, alpha, low, high (from documents drawn anew).
    Raises ParameterError where fewer than three sizes remain.
    """
    rows = []
    for dataset, line_of in found.items():
        budgets = np.array(list(line_of), dtype=np.float64)
        sizes = next(iter(line_of.values())).sizes
        wanted = per_parameter * sizes
        inside = (wanted >= budgets[0]) & (wanted <= budgets[-1])
        if inside.sum() < 3:
            what = f"{inside.sum()} sizes have a budget of {per_parameter:g} tokens for each parameter"
            near = np.sqrt(budgets[0] * budgets[-1]) / np.median(sizes)
            raise ParameterError(what, "per_parameter", f"Three are needed; try about {near:.0f}.")
        # the weight of each budget at each size, [budgets, sizes]: the corners of the interpolation
        place = np.log(wanted[inside])
        weights = np.array([np.interp(place, np.log(budgets), unit) for unit in np.eye(len(budgets))])
        for measure in next(iter(line_of.values())).whole:
            at = np.stack([line.whole[measure][inside] for line in line_of.values()])
            drawn_at = np.stack([line.draws[measure][:, inside] for line in line_of.values()])
            slopes = exponents(sizes[inside], np.einsum("bs,bds->ds", weights, drawn_at))
            low, high = interval(slopes, level)
            alpha = _alpha(sizes[inside], (weights * at).sum(axis=0))
            row = {"dataset": dataset, "measure": measure, "per_parameter": per_parameter, "sizes": int(inside.sum())}
            rows.append(row | {"alpha": alpha, "low": low, "high": high})
    return pd.DataFrame(rows)


def _alpha(sizes: Reals, y: Reals) -> float:
    return float(exponents(sizes, y[None])[0])
