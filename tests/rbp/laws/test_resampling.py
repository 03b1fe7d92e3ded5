"""The interval by documents: against textbooks, brute force and SciPy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rbp.laws.resampling import (
    covariance,
    document_sums,
    interval,
    log_neg_log_share,
    neg_log_rbp_document_interval,
    without_each,
)


def test_means_have_students_interval_and_vary_together_as_values_over_their_number():
    """One token a document: the textbook's interval, by SciPy; closed form of the covariance."""
    x = np.random.default_rng(1).normal(size=(20, 3)) @ [[1, 2, 0], [0, 1, 1], [0, 0, 3]]
    means = without_each(x) / np.concatenate([[20], np.full(20, 19)])[:, None]
    assert covariance(means) == pytest.approx(np.cov(x, rowvar=False) / 20, rel=1e-12)
    found = interval(means[:, 0], level=0.9)
    theirs = stats.ttest_1samp(x[:, 0], 0).confidence_interval(0.9)
    assert found == pytest.approx((x[:, 0].mean(), theirs.low, theirs.high), rel=1e-12)


def test_leaving_out_is_what_it_says():
    """Brute force: the tokens of all other documents, counted anew."""
    rng = np.random.default_rng(2)
    documents, ranks = rng.integers(0, 9, 400), rng.geometric(0.3, 400)
    found = log_neg_log_share(without_each(document_sums(np.column_stack([ranks <= 2, np.ones(400)]), documents)))
    names = pd.unique(documents)  # the sums' order
    by_hand = [np.log(-np.log((ranks[documents != name] <= 2).mean())) for name in names]
    assert found == pytest.approx([np.log(-np.log((ranks <= 2).mean())), *by_hand], rel=1e-12)
    error = np.sqrt(8 / 9 * np.sum((by_hand - np.mean(by_hand)) ** 2))
    low, high = neg_log_rbp_document_interval(ranks, documents, 2, 0.9)
    assert np.log([low, high]) == pytest.approx(found[0] + error * stats.t.ppf([0.05, 0.95], 8), rel=1e-12)


def test_what_one_document_decides_has_no_interval():
    ranks, documents = np.ones(300, dtype=int), np.repeat(np.arange(30), 10)
    ranks[5] = 9  # the only miss
    assert np.isnan(neg_log_rbp_document_interval(ranks, documents, 1)).all()
    ranks[200] = 9
    low, high = neg_log_rbp_document_interval(ranks, documents, 1)
    assert 0 < low < -np.log(298 / 300) < high < np.inf
    assert np.isnan(neg_log_rbp_document_interval([1, 2], [0, 0], 1)).all()  # a single document
    estimate, *ends = interval(without_each(np.array([[1.0], [np.inf], [2.0]])))  # a token of probability 0
    assert estimate == np.inf
    assert np.isnan(ends).all()
