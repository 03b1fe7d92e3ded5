import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder import ngrams
from rbp.errors import ParameterError
from rbp.extract.protocol import Row


class ByDictionaries:
    """Interpolated Kneser–Ney as the formula reads, an n-gram at a time."""

    def __init__(self, rows, order, vocabulary):
        self.vocabulary = vocabulary
        self.counts = {order: Counter()}
        for row in rows:
            for end in range(max(order - 1, 1), len(row)):
                self.counts[order][tuple(row[end - order + 1 : end + 1])] += 1
        for length in range(order - 1, 0, -1):
            self.counts[length] = Counter(gram[1:] for gram in self.counts[length + 1])
        self.discount, self.after = {}, {}
        for length, counts in self.counts.items():
            once, twice = (sum(n == times for n in counts.values()) for times in (1, 2))
            self.discount[length] = once / (once + 2 * twice) if once and twice else 0.5
            self.after[length] = defaultdict(list)
            for gram, n in counts.items():
                self.after[length][gram[:-1]].append(n)

    def p(self, token, context):
        length = len(context) + 1
        below = self.p(token, context[1:]) if context else 1 / self.vocabulary
        seen = self.after[length].get(context)
        if not seen:
            return below
        d, total = self.discount[length], sum(seen)
        return max(self.counts[length][(*context, token)] - d, 0) / total + d * len(seen) / total * below


tokens = st.integers(0, 6)
texts = st.lists(st.lists(tokens, min_size=9, max_size=9), min_size=1, max_size=12)


@given(texts, st.integers(1, 5), st.lists(tokens, min_size=2, max_size=12))
def test_probabilities_are_those_of_the_formula(rows, order, ids):
    rows, ids = np.array(rows, np.uint16), np.array(ids)
    model = ngrams.count(rows, order, vocabulary=7)
    known = ByDictionaries(rows.tolist(), order, 7)
    at = np.arange(1, len(ids))
    found = model.distributions(ids, at)
    wanted = [[known.p(w, tuple(ids[max(0, t - order + 1) : t].tolist())) for w in range(7)] for t in at]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-12)
    assert model.size == sum(len(counts) for counts in known.counts.values())


@given(texts, st.integers(1, 5))
def test_tokens_that_were_never_seen_are_equal_and_last(rows, order):
    rows = np.array(rows, np.uint16)
    model = ngrams.count(rows, order, vocabulary=30)
    ids = np.array([3, 1, 4, 1, 5, 29])
    found = ngrams.measure(model, [Row(4, 0, ids, np.array([1, 5]))])
    unseen = 30 - len(np.unique(rows[:, max(order - 1, 1) :]))
    assert found.equal[1] == unseen
    assert found.greater[1] == 30 - unseen
    assert found.document.tolist() == [4, 4]


def test_nll_and_entropy_of_a_row():
    rows = np.random.default_rng(5).integers(0, 20, (40, 17)).astype(np.uint16)
    model = ngrams.count(rows, 3, vocabulary=20)
    ids = np.random.default_rng(6).integers(0, 20, 700)
    scored = np.arange(300, 700)  # more than a chunk
    found = ngrams.measure(model, [Row(0, 0, ids, scored)], (1.0, 0.5))
    p = model.distributions(ids, scored)
    truth = p[np.arange(400), ids[scored]]
    np.testing.assert_allclose(found.nll, -np.log(truth))
    np.testing.assert_allclose(found.tempered[:, 0], found.nll)
    np.testing.assert_allclose(found.tempered[:, 1], -np.log(truth**2 / (p**2).sum(1)))
    np.testing.assert_allclose(found.entropy, [-sum(x * math.log(x) for x in row) for row in p])
    np.testing.assert_array_equal(found.greater, (p > truth[:, None]).sum(1))
    np.testing.assert_array_equal(found.equal, (p == truth[:, None]).sum(1))


def test_an_order_that_does_not_fit_is_refused():
    rows = np.zeros((1, 5), np.uint16)
    with pytest.raises(ParameterError, match="order 6 is not possible with a vocabulary of 4,096 tokens"):
        ngrams.count(rows, 6, vocabulary=4096)
    with pytest.raises(ParameterError, match="order 0"):
        ngrams.count(rows, 0, vocabulary=4096)
