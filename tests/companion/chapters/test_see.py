import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from companion.chapters import see
from rbp import metric


@given(st.lists(st.floats(0.011, 0.99), min_size=1, max_size=8))
def test_one_probability_allows_many_ranks(p):
    even, crowded = see.even(p, 100), see.crowded(p, 100)
    for distribution in (even, crowded):
        np.testing.assert_allclose(distribution.sum(axis=1), 1)
        np.testing.assert_array_equal(distribution[:, 0], p)
        assert (distribution >= 0).all()
    first = np.zeros(len(p), dtype=int)
    assert (metric.rank(*metric.greater_equal(even, first)) == 1).all()
    for rank, share in zip(metric.rank(*metric.greater_equal(crowded, first)), p, strict=True):
        # no rank can exceed 1/p; above a half the truth is first whatever the others do
        assert rank == (math.floor(1 / share) if share < 0.5 else 1) or math.isclose(1 / share, round(1 / share))


def test_significands():
    assert see.round_significand([1.0, 257.0, 3.3, -0.1], 8).tolist() == [1.0, 256.0, 3.296875, -0.10009765625]
    values = np.random.default_rng(0).normal(size=1000) * 100
    np.testing.assert_array_equal(see.round_significand(values, 24), values.astype(np.float32).astype(float))
    np.testing.assert_array_equal(see.round_significand(values, 11), values.astype(np.float16).astype(float))
    assert see.round_significand(0.0, 3) == 0
