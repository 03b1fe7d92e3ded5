"""One power law for every cell of a measurement table."""

from collections.abc import Sequence
from dataclasses import fields

import pandas as pd

from rbp.arrays import check_level
from rbp.errors import DataError, FitError, ParameterError
from rbp.laws.power import PowerLawFit, check_models, fit_power_law

FIELDS = [f.name for f in fields(PowerLawFit) if not f.name.startswith("_")]
MIXED = ("dataset", "metric", "k")  # values of two of these on one line are not one law


def fit_table(
    table: pd.DataFrame,
    by: Sequence[str] = ("dataset", "family", "k"),
    *,
    level: float = 0.95,
    required: bool = True,
) -> pd.DataFrame:
    """Fit one power law to each cell of ``table``, the rows that agree in the columns ``by``.

    ``table`` has the columns of ``by``, ``size`` and ``value``; a missing k (cross-entropy) is a cell of its own. A row
    for each cell, sorted by ``by``: those columns, the public fields of ``PowerLawFit`` and ``note``. Where a fit is
    impossible its numbers are NaN, ``n`` counts the points and ``note`` says why ("" elsewhere).

    Raises FitError where no cell can be fitted, if one is ``required``; DataError for a missing column, ParameterError
    where a cell mixes datasets, metrics or thresholds.
    """
    check_level(level)
    by = list(by)
    if missing := [name for name in (*by, "size", "value") if name not in table.columns]:
        raise DataError(
            f"the table has no column {', '.join(missing)}",
            remedy=f"It has {', '.join(map(str, table.columns))}.",
        )
    rows, remedies = [], []
    for key, points in table.groupby(by, dropna=False, observed=True):
        cell = dict(zip(by, key, strict=True))
        for name in MIXED:
            if name in table.columns and len(points[name].unique()) > 1:
                raise ParameterError(f"a cell holds several values of {name}", f"{cell}", f"Add {name!r} to by.")
        try:
            if "model" not in by:  # else a cell is one model, along k
                check_models(points)
            fit = fit_power_law(points["size"], points["value"], level=level)
        except FitError as error:
            note = error.what + (f" ({error.where})" if error.where else "")
            rows.append(cell | {"n": len(points), "level": level, "note": note})
            remedies.append(error.remedy)
        else:
            rows.append(cell | fit.as_dict() | {"note": ""})
    if required and rows and len(remedies) == len(rows):
        remedy = remedies[0] or "A law needs at least three sizes of one family: add models to the measurements."
        first = ", ".join(f"{name} {rows[0][name]}" for name in by)
        raise FitError(f"no law can be fitted: {rows[0]['note']}", first, remedy)
    columns = [*by, *FIELDS, "note"]
    fits = pd.DataFrame(rows, columns=columns)
    return fits.astype({name: table[name].dtype for name in by} | {"weak": "boolean", "n": "int64", "df": "Int64"})
