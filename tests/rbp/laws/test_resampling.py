"""The interval by documents: against textbooks, brute force and SciPy."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rbp.laws.resampling import (
    BLOCK,
    Units,
    covariance,
    document_sums,
    independent_units,
    interval,
    log_neg_log_share,
    mean,
    neg_log_rbp_document_interval,
    without_each,
)


def by(documents):
    """Documents as units of like weight, all of whose tokens count."""
    units = pd.factorize(np.asarray(documents))[0]
    count = units.max() + 1
    return Units(np.ones(len(units), dtype=bool), units, count, float(count), None)


def text(documents, first=None):
    """A table of tokens as a store has it: of each document the tokens; first: what −ln p of its first one is."""
    lengths = [len(each) for each in documents]
    table = pd.DataFrame(
        {
            "document": np.repeat(np.arange(len(documents)), lengths),
            "position": np.concatenate([np.arange(1, length + 1) for length in lengths]),
            "token": np.concatenate(documents),
            "nll": np.random.default_rng(0).exponential(2, sum(lengths)),
        }
    )
    if first is not None:
        table.loc[~table["document"].duplicated(), "nll"] = first
    return table


def test_means_have_students_interval_and_vary_together_as_values_over_their_number():
    """One token a document: the textbook's interval, by SciPy; closed form of the covariance."""
    x = np.random.default_rng(1).normal(size=(20, 3)) @ [[1, 2, 0], [0, 1, 1], [0, 0, 3]]
    means = without_each(x) / np.concatenate([[20], np.full(20, 19)])[:, None]
    assert covariance(means) == pytest.approx(np.cov(x, rowvar=False) / 20, rel=1e-12)
    found = interval(means[:, 0], 19, level=0.9)
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
    low, high = neg_log_rbp_document_interval(ranks, by(documents), 2, 0.9)
    assert np.log([low, high]) == pytest.approx(found[0] + error * stats.t.ppf([0.05, 0.95], 8), rel=1e-12)


def test_what_one_document_decides_has_no_interval():
    ranks, documents = np.ones(300, dtype=int), np.repeat(np.arange(30), 10)
    ranks[5] = 9  # the only miss
    assert np.isnan(neg_log_rbp_document_interval(ranks, by(documents), 1)).all()
    ranks[200] = 9
    low, high = neg_log_rbp_document_interval(ranks, by(documents), 1)
    assert 0 < low < -np.log(298 / 300) < high < np.inf
    assert np.isnan(neg_log_rbp_document_interval([1, 2], by([0, 0]), 1)).all()  # a single document
    estimate, *ends = interval(without_each(np.array([[1.0], [np.inf], [2.0]])), 2)  # a token of probability 0
    assert estimate == np.inf
    assert np.isnan(ends).all()


def test_a_token_counts_once_where_all_before_it_is_an_earlier_documents_too():
    """Brute force over whole beginnings; the unseen first token of a document is drawn, and shows in −ln p alone."""
    rng = np.random.default_rng(3)
    heads = [list(rng.integers(0, 9, length)) for length in (3, 3, 40)]
    unseen = rng.integers(0, 2, 60)
    documents = [
        [*heads[rng.integers(3)][: rng.integers(2, 41)], *rng.integers(0, 3, rng.integers(0, 9))] for _ in range(60)
    ]
    first = np.array([1.0 + 0.3 * token + 0.1 * document[0] for token, document in zip(unseen, documents, strict=True)])
    table, seen, expected = text(documents, first + rng.uniform(0, 1e-5, 60)), set(), []
    for token, document in zip(unseen, documents, strict=True):
        for end in range(len(document)):
            begun = (token, *document[: end + 1])
            expected.append(begun not in seen)
            seen.add(begun)
    units = independent_units(table)
    assert 100 < (~units.once).sum() < len(table) - 100
    assert units.once.tolist() == expected


def test_one_long_text_is_cut_into_blocks_of_like_length():
    lengths = (10 * BLOCK + 700, 30, 20)
    rng = np.random.default_rng(4)
    table = text([rng.integers(0, 50, length) for length in lengths])
    units = independent_units(table)
    blocks = pd.Series(units.unit).groupby(table["document"]).agg(["nunique", "min", "max"])
    assert blocks["nunique"].tolist() == [10, 1, 1]
    assert np.bincount(units.unit)[:10].tolist() == pytest.approx([lengths[0] / 10] * 10, abs=1)
    assert (np.diff(units.unit) >= 0).all()
    values = table["nll"].to_numpy()
    ends = units.interval(mean, np.column_stack([values, np.ones(len(values))]))
    without = np.array([values[units.unit != unit].mean() for unit in range(12)])
    sizes = np.bincount(units.unit)
    half = stats.t.ppf(0.975, sizes.sum() ** 2 / (sizes**2).sum() - 1) * np.sqrt(11 * without.var())
    assert ends.high - ends.low == pytest.approx(2 * half, rel=1e-9)
    assert "one document has most of the tokens" in units.notes[0]
