"""Fits and tests for every cell of a measurement table, a row each."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.arrays import Reals
from rbp.errors import FitError, ParameterError
from rbp.laws.offset import fit_offset
from rbp.laws.power import check_points, curvature, fit_power_law

Row = dict[Any, Any]

CELL = ["dataset", "k", "family"]
FEW = 5  # families of so many sizes or fewer have their own number of models held out


def _rows(table: pd.DataFrame, by: list[str], answer: Callable[[pd.DataFrame], list[Row]]) -> pd.DataFrame:
    rows = []
    for key, points in table.groupby(by, dropna=False):
        cell = dict(zip(by, key, strict=True))
        try:
            rows += [cell | row for row in answer(points.sort_values("size"))]
        except FitError:
            continue
    if not rows:
        raise FitError("no family has enough points", "measurements", "Give at least four sizes of one family.")
    return pd.DataFrame(rows)


def holm(p: npt.ArrayLike) -> Reals:
    """Correct p-values for their number by Holm's method (1979), shape (n,)."""
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values)
    corrected = np.empty_like(values)
    corrected[order] = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)).clip(max=1)
    return corrected


def with_holm(table: pd.DataFrame, level: float) -> pd.DataFrame:
    """Add ``alarm`` (p below 1 − level), ``p_holm`` and ``alarm_holm`` (the same after Holm's correction).

    Rows whose p is missing were not tested: they count for nothing, and give no alarm.
    """
    p = table["p"].astype(float)
    tested = p.notna()
    corrected = p.copy()
    if tested.any():
        corrected[tested] = holm(p[tested])
    return table.assign(alarm=p < 1 - level, p_holm=corrected, alarm_holm=corrected < 1 - level)


def forecast(small: pd.DataFrame, large: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Fit a power law to the models of `small`, and forecast those of `large`, a row each.

    Columns model, size, ``ahead`` (size over the largest size fitted), value (measured), predicted, low, high
    (prediction interval), error (predicted/value − 1), covered. Raises FitError as the fit does.
    """
    law = fit_power_law(small["size"], small["value"], level=level)
    rows = large[["model", "size", "value"]].reset_index(drop=True)
    rows.insert(2, "ahead", rows["size"] / small["size"].max())
    rows = rows.join(law.predict(rows["size"]).rename(columns={"value": "predicted"})[["predicted", "low", "high"]])
    covered = (rows["low"] <= rows["value"]) & (rows["value"] <= rows["high"])
    return rows.assign(error=rows["predicted"] / rows["value"] - 1, covered=covered)


def forecasts(table: pd.DataFrame, *, holdout: int, holdout_few: int, level: float = 0.95) -> pd.DataFrame:
    """Forecast the largest models of every cell from the others, by a power law.

    ``holdout`` models are held out, or ``holdout_few`` in families of five sizes or fewer; at least three sizes
    remain, so less is held out where need be. Columns: CELL, `forecast`'s, and ``n`` (points fitted). Raises FitError
    where no cell has four sizes.
    """

    def answer(points: pd.DataFrame) -> list[Row]:
        check_points(points["size"], points["value"], minimum=4)
        sizes = points["size"].nunique()
        held = min(holdout_few if sizes <= FEW else holdout, sizes - 3)
        if held < 1:
            raise ParameterError(f"{held} sizes cannot be held out", "holdout", "Hold out at least 1.")
        seen = points["size"] < np.unique(points["size"])[-held]
        return forecast(points[seen], points[~seen], level=level).assign(n=int(seen.sum())).to_dict("records")

    return _rows(table, CELL, answer)


def curvatures(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Compute ``curvature`` of every cell, with Holm's correction for their number (``alarm``, ``alarm_holm``)."""
    rows = _rows(table, CELL, lambda points: [asdict(curvature(points["size"], points["value"], level=level))])
    return with_holm(rows, level)


def offsets(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Compute ``fit_offset`` of every cell.

    Columns offset, its interval, n, r_squared (of ln y), and distinguishable.
    """

    def answer(points: pd.DataFrame) -> list[Row]:
        fit, logs = fit_offset(points["size"], points["value"], level=level), np.log(points["value"])
        return [
            {
                "n": fit.n,
                "r_squared": 1 - fit.rss / np.sum((logs - logs.mean()) ** 2),
                "offset": fit.offset,
                "offset_low": fit.offset_low,
                "offset_high": fit.offset_high,
                "distinguishable": fit.distinguishable,
            }
        ]

    return _rows(table, CELL, answer)
