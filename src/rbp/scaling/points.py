"""What every fit asks of its points: numbers that have a logarithm, and enough different sizes."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rbp.errors import FitError, ParameterError

Floats = npt.NDArray[np.float64]

# Residuals of ln y below this are rounding: they must not pass for a measured scatter.
ROUNDING = 1e-12


def check_level(level: float) -> None:
    """Raise ParameterError unless ``level`` is a confidence level strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ParameterError(
            f"a confidence level must lie between 0 and 1, not {level}",
            "level",
            "Give 0.95 for 95% intervals.",
        )


def as_positive(numbers: npt.ArrayLike, name: str) -> Floats:
    """``numbers`` as a 1-D float array; FitError names the first row that is not positive and finite."""
    try:
        array: Any = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError):
        raise FitError(f"{name} holds something that is not a number", name) from None
    if array.ndim != 1:
        raise FitError(f"{name} must be a list of numbers, not an array of {array.ndim} dimensions", name)
    wrong = np.flatnonzero(~(np.isfinite(array) & (array > 0)))
    if wrong.size:
        row = int(wrong[0])
        why = "A value of 0 is RBP_k = 1: every token was in the top k. " if array[row] == 0 else ""
        raise FitError(
            f"{name} {array[row]:g} has no logarithm",
            f"row {row}, counted from 0",
            f"{why}Leave this point out.",
        )
    return array  # type: ignore[no-any-return]


def check_models(points: pd.DataFrame) -> None:
    """Raise FitError if a model stands twice among the points of one fit: it would make the interval too narrow."""
    if "model" in points.columns and (twice := points["model"].duplicated()).any():
        remedy = "Keep one measurement of each model."
        raise FitError(f"{points.loc[twice, 'model'].iloc[0]} is there twice", "model", remedy)


def check_points(
    size: npt.ArrayLike, value: npt.ArrayLike, *, name: str = "value", minimum: int = 3
) -> tuple[Floats, Floats]:
    """Sizes and values, both of shape (n,), fit for a line through their logarithms.

    Raises FitError for values or sizes that are not positive and finite, lengths that differ, fewer than
    ``minimum`` points, fewer than three different sizes, or values that are all equal. The last is an error
    because R² is then 1 − 0/0: the paper's Table 1 prints such a cell as "R² 1.000, slope 0.000" (Qwen2.5 on
    HumanEval, k = 10000), which looks like a perfect law and is the absence of one.
    """
    sizes, values = as_positive(size, "size"), as_positive(value, name)
    if sizes.size != values.size:
        raise FitError(f"{sizes.size} sizes but {values.size} values", name, "Give one value for each size.")
    if sizes.size < minimum:
        raise FitError(f"{sizes.size} points are too few: this fit needs at least {minimum}", "size")
    distinct = np.unique(sizes).size
    if distinct < 3:
        raise FitError(f"only {distinct} different sizes: this fit needs at least 3", "size")
    if np.ptp(np.log(values)) < ROUNDING:
        raise FitError(
            f"the values do not vary: all are {values[0]:g}",
            name,
            "R² is undefined, and there is no law to fit.",
        )
    return sizes, values
