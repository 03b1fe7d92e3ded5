import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rbp import metric
from rbp.errors import DataError

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
    with pytest.raises(DataError):
        metric.rank([0], [0])
