import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from companion.project import DATA
from rbp import metric
from rbp.errors import DataError, ParameterError
from rbp.laws import counting, resampling
from rbp.measurements.windows import window_counts

# few distinct values, so that ties are common
tied_scores = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 9)),
    elements=st.sampled_from([-2.0, -1.0, -0.0, 0.0, 1.0, math.inf, -math.inf]),
)


@given(tied_scores, st.data())
def test_ranks_are_places_in_a_sorted_list(scores, data):
    target = data.draw(hnp.arrays(np.int64, scores.shape[0], elements=st.integers(0, scores.shape[1] - 1)))
    greater, equal = metric.greater_equal(scores, target)
    for row, truth, paper, strict, expected in zip(
        scores,
        target,
        metric.rank(greater, equal),
        metric.rank(greater, equal, "strict"),
        metric.rank(greater, equal, "expected"),
        strict=True,
    ):
        places = [1 + place for place, score in enumerate(sorted(row, reverse=True)) if score == row[truth]]
        assert (strict, paper, expected) == (min(places), max(places), sum(places) / len(places))
        assert 1 <= strict <= expected <= paper <= len(row)


def test_figure_2_of_the_paper():
    assert metric.rbp([3, 1, 3], 2) == pytest.approx(1 / 3)
    assert metric.cross_entropy([0.21, 0.28, 0.19]) == pytest.approx(-math.log(0.21 * 0.28 * 0.19) / 3)


@given(st.lists(st.integers(2, 80).map(lambda r: r / 2), min_size=1), st.lists(st.integers(1, 50), min_size=1))
def test_rbp_is_the_distribution_function_of_the_rank(ranks, k):
    expected = [Fraction(sum(r <= threshold for r in ranks), len(ranks)) for threshold in k]
    assert metric.rbp(ranks, k).tolist() == [float(share) for share in expected]
    assert metric.rbp(ranks, k[0]) == float(expected[0])
    assert metric.rbp(ranks, math.ceil(max(ranks))) == 1.0


def test_impossible_inputs_are_named():
    with pytest.raises(DataError, match="NaN"):
        metric.greater_equal([0.0, math.nan], 0)
    with pytest.raises(DataError, match="target"):
        metric.greater_equal([0.0, 1.0], 2)
    with pytest.raises(DataError, match="target"):
        metric.greater_equal([0.0, 1.0], -1)
    with pytest.raises(DataError, match="one target per position"):
        metric.greater_equal(np.zeros((3, 4)), [0, 1])
    with pytest.raises(ParameterError, match="paper, strict, expected"):
        metric.rank([0], [1], "loose")
    for greater, equal in [([-1], [1]), ([0], [0]), ([0.5], [1])]:
        with pytest.raises(DataError):
            metric.rank(greater, equal)
    for ranks in ([], [math.nan, 1], [0]):
        with pytest.raises(DataError):
            metric.rbp(ranks, 1)
    for k in (0, [1, 0], math.nan):
        with pytest.raises(ParameterError):
            metric.rbp([1], k)
    for p in ([], [math.nan], [1.1], [-0.1]):
        with pytest.raises(DataError):
            metric.cross_entropy(p)
    assert metric.cross_entropy([0.0, 1.0]) == math.inf


def test_interval_solves_the_binomial_tails():
    low, high = counting.neg_log_rbp_interval(132065, 317414)
    # Clopper and Pearson: at each end the observed count is just 2.5% likely or rarer
    assert stats.binom.sf(132065 - 1, 317414, math.exp(-high)) == pytest.approx(0.025, rel=1e-6)
    assert stats.binom.cdf(132065, 317414, math.exp(-low)) == pytest.approx(0.025, rel=1e-6)


def test_interval_at_the_ends_and_of_arrays():
    low, high = counting.neg_log_rbp_interval([0, 10, 10], [10, 10, 20], 0.9)
    assert high[0] == math.inf
    assert low[1] == 0.0
    assert high[1] == pytest.approx(-math.log(0.05) / 10)
    assert (low < high).all()


def test_interval_covers_and_variance_is_that_of_simulation():
    p, tokens = 0.4, 2000
    drawn = np.random.default_rng(1).binomial(tokens, p, size=20_000)
    low, high = counting.neg_log_rbp_interval(drawn, tokens)
    covered = ((low <= -math.log(p)) & (-math.log(p) <= high)).mean()
    assert 0.95 <= covered <= 0.96
    simulated = np.var(-np.log(drawn / tokens))
    assert counting.neg_log_rbp_variance(p * tokens, tokens) == pytest.approx(simulated, rel=0.04)
    assert counting.neg_log_rbp_variance(0, 10) == math.inf


@pytest.mark.parametrize(("hits", "tokens"), [(2, 1), (-1, 5), (0, 0), (math.nan, 3)])
def test_impossible_counts(hits, tokens):
    with pytest.raises(DataError):
        counting.neg_log_rbp_interval(hits, tokens)
    with pytest.raises(DataError):
        counting.neg_log_rbp_variance(hits, tokens)


def test_level_is_checked():
    with pytest.raises(ParameterError, match="level"):
        counting.neg_log_rbp_interval(1, 2, 95)


def test_windows_are_counted_as_the_authors_do():
    """GPT-2 on Wikipedia: 317 414 tokens of 1000 documents; windows of 5 are 4 fewer in each."""
    counts = pd.read_csv(DATA / "published" / "gpt2_window_counts.csv").query("k == 1").drop_duplicates("n")
    windows = counts.set_index("n")["windows"]
    lengths = np.full(1000, windows[1] // 1000)
    lengths[: windows[1] % 1000] += 1  # any lengths above 5 will do
    owner, position = np.repeat(np.arange(1000), lengths), np.concatenate([np.arange(n) for n in lengths])
    found = window_counts(np.ones(windows[1], bool), owner, position, [5]).iloc[0]
    assert found["successes"] == found["windows"] == windows[5]


def test_documents_that_are_alike_widen_the_interval():
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(200), 50)
    shared = np.repeat(rng.random(200) < 0.4, 50)  # every document is all hits or none
    ranks = np.where(shared, 1, 9)
    low, high = resampling.neg_log_rbp_document_interval(ranks, documents, 1)
    narrow_low, narrow_high = counting.neg_log_rbp_interval((ranks == 1).sum(), len(ranks))
    assert low < narrow_low < -np.log(shared.mean()) < narrow_high < high

    independent = rng.integers(1, 3, len(documents))  # tokens that know nothing of one another
    low, high = resampling.neg_log_rbp_document_interval(independent, documents, 1)
    narrow_low, narrow_high = counting.neg_log_rbp_interval((independent == 1).sum(), len(independent))
    assert high - low == pytest.approx(float(narrow_high - narrow_low), rel=0.2)
    with pytest.raises(ParameterError):
        resampling.neg_log_rbp_document_interval([1], [0], 1, level=95)
