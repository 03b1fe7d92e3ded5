"""Size and training: the surface over S and D of one family, and what becomes of the exponent in S."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from rbp.core.arrays import Reals, check_level
from rbp.core.errors import FitError, ParameterError
from rbp.evidence.counts import Counts, LeftOut
from rbp.paper.families import TRANSFORMER
from rbp.paper.ladder import exponents
from rbp.stats.compare import aicc
from rbp.stats.power_law import fit_power_law
from rbp.stats.resampling import interval
from rbp.stats.surface import ADDITIVE, FORMS, PRODUCT, RAISED, Surface, fit_surface, leave_one_out

_PARAMETERS = {ADDITIVE: 5, PRODUCT: 3, RAISED: 4}
CELL = ["dataset", "k"]


def _cells(points: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The rows of each text and k, the cross-entropy's among them (k missing)."""
    key: Any
    for key, own in points.groupby(CELL, sort=False, dropna=False):
        yield {"dataset": str(key[0]), "k": None if pd.isna(key[1]) else int(key[1])}, own


def _as_rows(rows: Sequence[dict[Any, Any]], columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[*columns]).astype({"k": "Int64"})


def surfaces(points: pd.DataFrame, form: str = ADDITIVE) -> dict[tuple[str, int | None], Surface]:
    """The surface of each text and k of `points` (`families.points`); cells that determine none are left out.

    k is None for the cross-entropy, here and below.
    """
    found = {}
    for cell, own in _cells(points):
        with suppress(FitError):
            found[cell["dataset"], cell["k"]] = fit_surface(own, form)
    return found


def forms(points: pd.DataFrame) -> pd.DataFrame:
    """Each form of the law on each text and k: how well it fits, and how well it foretells what it did not see.

    Columns dataset, k, form, n, alpha, beta, offset, r_squared (of ln y), scatter (the residuals of ln y, per
    cent), aicc; unseen_budget, unseen_size: fitted without the largest D (or S), the root mean square of the errors of
    ln y there, per cent; bias_budget, bias_size: their mean, foretold less measured. Missing where a form has no fit.
    """
    rows = []
    for cell, own in _cells(points):
        for form in FORMS:
            row = cell | {"form": form}
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
    return _as_rows(rows, [*CELL, "form", *columns, *unseen])


def _unseen(points: pd.DataFrame, form: str, column: str) -> Reals:
    """ln of foretold over measured at the largest value of a column, by a fit without it."""
    out = points[column] == points[column].max()
    there = points[out]
    told = fit_surface(points[~out], form).predict(there["size"], there["training_tokens"])
    logs: Reals = np.log(told / there["value"].to_numpy(dtype=np.float64))
    return logs


def best(table: pd.DataFrame, by: str) -> pd.Series:
    """The form with the least of a column of `forms`, by text and k."""
    ordered = table.dropna(subset=by).sort_values(by, kind="stable")
    return ordered.drop_duplicates(CELL).set_index(CELL)["form"].sort_index()


def jackknifed(points: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """The sum form's exponents, with intervals that leave out one size at a time.

    Rows for each text and k: alpha, beta; fixed and along, the local exponent in S of y at the largest D and the
    geometric mean of S, at fixed D and at constant tokens per parameter. Columns dataset, k, quantity, estimate, se,
    low, high, units.
    """
    parts: list[dict[Any, Any]] = []
    for cell, own in _cells(points):
        size, tokens = float(np.exp(np.log(own["size"]).mean())), float(own["training_tokens"].max())

        def estimate(rows: pd.DataFrame, at: tuple[float, float] = (size, tokens)) -> dict[str, float]:
            fit = fit_surface(rows)
            both = {"fixed": fit.exponent(*at).item(), "along": fit.exponent(*at, along=1).item()}
            return {"alpha": fit.alpha, "beta": fit.beta} | both

        with suppress(FitError):
            parts += leave_one_out(own, "size", estimate, level=level).assign(**cell).to_dict("records")
    return _as_rows(parts, [*CELL, "quantity", "estimate", "se", "low", "high", "units"])


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

    Columns dataset, k, training_tokens, n, alpha; low, high: by documents; scatter_low,
    scatter_high: from the scatter about the line; r_squared; difference, difference_low, difference_high: α less that
    of the smallest budget, by the same documents.
    """
    check_level(level)
    rows = []
    for dataset, line_of in found.items():
        first = line_of[min(line_of)]
        for k, y_first in first.each():
            reference = exponents(first.counts.sizes, y_first)
            for budget, line in line_of.items():
                y, sizes = line.at(k), line.counts.sizes
                fit = fit_power_law(sizes, np.exp(y[0]), level=level)
                slopes = exponents(sizes, y)
                alpha, low, high = interval(slopes, level=level)
                difference, less, more = interval(slopes - reference, level=level)
                rows.append(
                    {"dataset": dataset, "k": k, "training_tokens": budget, "n": fit.n}
                    | {"alpha": alpha, "low": low, "high": high}
                    | {"scatter_low": fit.alpha_low, "scatter_high": fit.alpha_high, "r_squared": fit.r_squared}
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
