import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from companion.chapters import see
from rbp import metric

SHARES = st.lists(st.floats(0.011, 0.99), min_size=1, max_size=8)


@given(SHARES)
def test_one_probability_allows_many_ranks(p):
    even, crowded = see.even(p, 100), see.crowded(p, 100)
    first = np.zeros(len(p), dtype=int)
    for distribution in (even, crowded):
        np.testing.assert_allclose(distribution.sum(axis=1), 1)
        np.testing.assert_array_equal(distribution[:, 0], p)
        assert (distribution >= 0).all()
    best = metric.rank(*metric.greater_equal(even, first))
    worst = metric.rank(*metric.greater_equal(crowded, first))
    assert (best == 1).all()
    for rank, share in zip(worst, p, strict=True):
        # no rank can exceed 1/p; above a half the truth is first whatever the others do
        assert rank == (math.floor(1 / share) if share < 0.5 else 1) or math.isclose(1 / share, round(1 / share))


def test_simulated_truths_follow_the_softmax():
    scores, truth = see.simulated_scores(1, 4000, 30)
    own = softmax(scores, axis=1)
    np.testing.assert_allclose(see.p_truth(scores, truth), own[np.arange(4000), truth])
    warm = softmax(scores / 2, axis=1)[np.arange(4000), truth]
    np.testing.assert_allclose(see.p_truth(scores, truth, 2.0), warm)
    drawn = np.bincount(truth, minlength=30)
    variance = (own * (1 - own)).sum(axis=0)
    assert (((drawn - own.sum(axis=0)) ** 2 / variance).sum()) < 60  # chi-square of 30: beyond 60 once in 1000


def test_significands():
    assert see.round_significand([1.0, 257.0, 3.3, -0.1], 8).tolist() == [1.0, 256.0, 3.296875, -0.10009765625]
    values = np.random.default_rng(0).normal(size=1000) * 100
    np.testing.assert_array_equal(see.round_significand(values, 24), values.astype(np.float32).astype(float))
    np.testing.assert_array_equal(see.round_significand(values, 11), values.astype(np.float16).astype(float))
    assert see.round_significand(0.0, 3) == 0
