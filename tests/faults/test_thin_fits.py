"""Fits with three points, equal sizes, a zero (RBP_k = 1), negative values, or a model that is there twice: an error or
a marked result, never a silent number."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from companion.stats.compare import paired_exponents
from companion.stats.forecast import forecast
from companion.stats.shapes import SHAPES, fit_shape
from rbp.errors import DataError, FitError, ParameterError
from rbp.laws.offset import fit_offset
from rbp.laws.power import curvature, fit_power_law
from rbp.laws.table import fit_table
from rbp.measurements import open_source

SIZES = np.array([1e6, 1e7, 1e8, 1e9, 1e10, 1e11])
VALUES = np.array([3.1, 2.2, 1.7, 1.1, 0.9, 0.6])
FITS: dict[str, Callable[[Any, Any], Any]] = {
    "power law": fit_power_law,
    "offset": fit_offset,
    "forecast": lambda size, value: forecast(size, value, holdout=1),
    "curvature": curvature,
    "paired": lambda size, value: paired_exponents(size, value, np.asarray(value) * np.linspace(1, 2, len(value))),
    **{f"shape {shape}": lambda size, value, shape=shape: fit_shape(shape, size, value) for shape in SHAPES},
}
BAD = {
    "two points": (SIZES[:2], VALUES[:2]),
    "none": ([], []),
    "equal sizes": ([1e7] * 5, VALUES[:5]),
    "two different sizes": ([1e7, 1e7, 1e8, 1e8, 1e8], VALUES[:5]),
    "a zero": (SIZES, [*VALUES[:5], 0.0]),
    "a negative value": (SIZES, [*VALUES[:5], -0.1]),
    "not a number": (SIZES, [*VALUES[:5], math.nan]),
    "infinite": (SIZES, [math.inf, *VALUES[1:]]),
    "a size of zero": ([0, *SIZES[1:]], VALUES),
    "a negative size": ([-1e6, *SIZES[1:]], VALUES),
    "an infinite size": ([*SIZES[:5], math.inf], VALUES),
    "equal values": (SIZES, [2.0] * 6),
}


@pytest.mark.parametrize("name", FITS)
def test_points_that_carry_no_fit_are_an_error(name):
    for bad, points in BAD.items():
        with pytest.raises((FitError, ParameterError)):
            pytest.fail(f"{bad}: {FITS[name](*points)}")


def test_the_same_model_twice_would_narrow_the_interval():
    rows = {"dataset": "d", "family": "F", "metric": "neg_log_rbp", "k": 1, "size": SIZES, "value": VALUES}
    one = pd.DataFrame(rows | {"model": [f"m{i}" for i in range(len(SIZES))]}).astype({"k": "Int64"})
    fits = fit_table(pd.concat([one, one[:1], one.assign(family="G")]))
    assert fits["note"].tolist() == ["m0 is there twice (model)", ""]
    assert fits["alpha"].isna().tolist() == [True, False]
    with pytest.raises(DataError, match="is in two sources"):
        _ = open_source(["published", "published"]).table
