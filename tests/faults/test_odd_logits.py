"""Fault 6: NaN, infinite and equal logits, by every way of counting. What a rank is: `ranks/test_metric.py`."""

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from rbp import metric
from rbp.errors import DataError, RankError
from rbp.extract.forward import rank_logits
from rbp.kernel import linear_rank

INF, NAN = math.inf, math.nan
odd = st.sampled_from([0.0, -0.0, 1.0, 1.0, -1.0, 2.5, INF, -INF])
rows = st.integers(1, 9).flatmap(lambda v: st.tuples(st.lists(odd, min_size=v, max_size=v), st.integers(0, v - 1)))


def places(scores: list[float], target: int) -> tuple[int, int]:
    """By going through the list: how many are before the target, and how many where it is."""
    return sum(s > scores[target] for s in scores), sum(s == scores[target] for s in scores)


@given(rows, st.sampled_from(["reference", "blocked"]))
@example(([-INF] * 3, 1), "reference")
@example(([INF, INF, 0.0], 0), "blocked")
def test_every_backend_counts_the_same(row, backend):
    """The scores come in as the bias of a product that is 0."""
    scores, target = row
    hidden, weight = torch.zeros(1, 2), torch.zeros(len(scores), 2)
    found = linear_rank(hidden, weight, torch.tensor([target]), bias=torch.tensor(scores), backend=backend)
    assert (int(found.greater), int(found.equal)) == places(scores, target)


@given(rows)
@example(([-INF] * 3, 1))
@example(([-INF, 0.0], 0))
@example(([INF, 0.0], 1))
def test_logits_at_hand_are_ranked_as_those_of_a_product(row):
    scores, target = row
    if INF in scores:
        with pytest.raises(RankError, match=r"\+inf"):
            _ = rank_logits(torch.tensor([scores]), torch.tensor([target])).nll
        return
    found = rank_logits(torch.tensor([scores]), torch.tensor([target]))
    assert (int(found.greater), int(found.equal)) == places(scores, target)
    total = sum(math.exp(s) for s in scores)
    expected = INF if scores[target] == -INF else math.log(total) - scores[target]
    assert float(found.nll) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(rows, st.data())
def test_nan_is_never_ranked(row, data):
    scores, target = row
    scores = list(scores)
    scores[data.draw(st.integers(0, len(scores) - 1))] = NAN
    with pytest.raises(DataError, match="NaN"):
        metric.greater_equal(scores, target)
    with pytest.raises(RankError, match="NaN"):
        rank_logits(torch.tensor([scores]), torch.tensor([target]))
    hidden, weight = torch.zeros(1, 2), torch.zeros(len(scores), 2)
    for backend in ("reference", "blocked"):
        with pytest.raises(RankError, match="NaN"):
            linear_rank(hidden, weight, torch.tensor([target]), bias=torch.tensor(scores), backend=backend)
