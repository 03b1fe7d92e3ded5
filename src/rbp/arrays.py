"""Arrays of numbers: their types, and the checks that functions of numbers share."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rbp.errors import DataError, FitError, ParameterError

Integers: TypeAlias = npt.NDArray[np.int64]
Reals: TypeAlias = npt.NDArray[np.float64]


def as_ranks(values: npt.ArrayLike) -> Reals:
    """Return ranks of any shape as numbers. Raises DataError for none, NaN, or a rank below 1."""
    ranks = np.asarray(values, dtype=np.float64)
    if not ranks.size or not (ranks >= 1).all():
        raise DataError("ranks must be numbers of at least 1, and at least one of them", "ranks", "Check them.")
    return ranks


def check_level(level: float) -> None:
    """Raise ParameterError unless ``level`` is a confidence level strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ParameterError(
            f"a confidence level must lie between 0 and 1, not {level}",
            "level",
            "Give 0.95 for 95% intervals.",
        )


def as_positive(numbers: npt.ArrayLike, name: str) -> Reals:
    """Return ``numbers`` as a 1-D float array; FitError names the first row that is not positive and finite."""
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
