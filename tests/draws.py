"""How much a test draws: a share of it in the loop, all of it in the slow set; and what the draws may show."""

from collections.abc import Sequence
from typing import Any

import pytest
from scipy.stats import binom


def loop_and_slow(light: Any, full: Any) -> list[Any]:
    """The values of a test's parameter: `light` wherever tests run, `full` in `make test-slow` alone."""
    return [pytest.param(light, id="light"), pytest.param(full, id="full", marks=pytest.mark.slow)]


def rest_slow(loop: Sequence[Any], rest: Sequence[Any]) -> list[Any]:
    """The values of a test's parameter: those of `loop` wherever tests run, the `rest` in `make test-slow` alone."""
    several = [each if isinstance(each, tuple) else (each,) for each in rest]
    return [*loop, *(pytest.param(*each, marks=pytest.mark.slow) for each in several)]


def may_be(found: int, draws: int, least: float, most: float | None = None) -> bool:
    """Whether `found` of `draws` may come from a probability between `least` and `most` (default: of `least` itself).

    A true probability at either end is taken for another once in 1000 times at most.
    """
    most = least if most is None else most
    return bool(binom.ppf(0.0005, draws, least) <= found <= binom.isf(0.0005, draws, most))
