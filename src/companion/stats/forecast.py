"""Fit the small models, forecast the largest, and check whether the interval covers them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.arrays import check_level
from rbp.errors import ParameterError
from rbp.laws.power import PowerLawFit, check_points, fit_power_law


@dataclass(frozen=True)
class Forecast:
    """A fit without the largest sizes, and its forecasts of them.

    ``rows``: one a held-out point, by size: ``size``, ``value`` (measured), ``predicted``, ``low``, ``high``
    (prediction interval of the fit's level), ``error`` (predicted/value − 1) and ``covered``.
    """

    rows: pd.DataFrame
    fit: PowerLawFit


def forecast(
    size: npt.ArrayLike,
    value: npt.ArrayLike,
    *,
    holdout: int,
    level: float = 0.95,
) -> Forecast:
    """Fit a power law to all but the ``holdout`` largest sizes and forecast these.

    ``size`` and ``value`` have shape (n,); points of equal size are held out together. Raises ParameterError where
    ``holdout`` < 1 or leaves fewer than 3 sizes; FitError as the fit does.
    """
    check_level(level)
    sizes, values = check_points(size, value)
    distinct = np.unique(sizes)
    if holdout < 1 or distinct.size - holdout < 3:
        raise ParameterError(
            f"{distinct.size} sizes cannot have {holdout} held out",
            "holdout",
            "Hold out at least 1 and leave 3.",
        )
    small = sizes < distinct[-holdout]
    fit = fit_power_law(sizes[small], values[small], level=level)
    order = np.argsort(sizes[~small], kind="stable")
    held_size, held_value = sizes[~small][order], values[~small][order]
    ahead = fit.predict(held_size)
    rows = pd.DataFrame(
        {
            "size": held_size,
            "value": held_value,
            "predicted": ahead["value"],
            "low": ahead["low"],
            "high": ahead["high"],
            "error": ahead["value"] / held_value - 1,
            "covered": (ahead["low"] <= held_value) & (held_value <= ahead["high"]),
        }
    )
    return Forecast(rows, fit)
