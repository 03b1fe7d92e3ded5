"""Estimates from counts of windows: against texts drawn anew, and cases by hand."""

import numpy as np
import pytest
from simulated import chain

from companion.stats.window_errors import fill_gaps, share_error
from rbp.measurements.windows import window_counts


def test_filling_in_is_exact_for_independent_tokens():
    n = [1, 2, 5, 10]
    curve = fill_gaps(n, [round(1e12 * 0.5**m) for m in n], longest=20)
    assert curve == pytest.approx(1e12 * 0.5 ** np.arange(1, 21), rel=1e-6)
    assert fill_gaps([1, 3], [8, 0], longest=4) == pytest.approx([8, 4, 0, 0])
    assert fill_gaps([1], [5], longest=3) == pytest.approx([5, 5, 5])  # nothing tells how it goes on


@pytest.mark.parametrize(("hit", "stay"), [(0.5, 0.5), (0.6, 0.85), (0.97, 0.98)])
def test_the_error_is_that_of_texts_drawn_anew(hit, stay):
    """Independent tokens, and chains: never too small by much, and at most twice too large."""
    rng = np.random.default_rng(7)
    found = [window_counts(*chain(rng, 100, 200, hit, stay), [1, 2, 5, 10]) for _ in range(100)]
    shares = np.array([each["successes"] / each["windows"] for each in found])
    said = np.array([share_error(each["n"], each["successes"], each["windows"]) for each in found])
    ratio = np.median(said, axis=0) / (shares.std(axis=0) / shares.mean(axis=0))
    assert (ratio > 0.8).all()
    assert (ratio < 2.1).all()
