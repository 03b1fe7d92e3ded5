"""NaN, infinite and equal logits, by every way of counting. What a rank is: `rbp/test_metric.py`."""

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
BACKENDS = ("reference", "blocked")


def ranked_by(backend: str, scores: list[float], target: int):
    """The scores come in as the bias of a product that is 0."""
    hidden, weight = torch.zeros(1, 2), torch.zeros(len(scores), 2)
    return linear_rank(hidden, weight, torch.tensor([target]), bias=torch.tensor(scores), backend=backend)


@given(rows)
@example(([-INF] * 3, 1))
@example(([-INF, 0.0], 0))
@example(([INF, 0.0], 1))
@example(([INF, INF, 0.0], 0))
def test_every_way_of_counting_gives_the_place_in_the_list(row):
    scores, target = row
    places = sum(s > scores[target] for s in scores), sum(s == scores[target] for s in scores)
    for backend in BACKENDS:
        found = ranked_by(backend, scores, target)
        assert (int(found.greater), int(found.equal)) == places
    if INF in scores:
        with pytest.raises(RankError, match=r"\+inf"):
            _ = rank_logits(torch.tensor([scores]), torch.tensor([target])).nll
        return
    found = rank_logits(torch.tensor([scores]), torch.tensor([target]))
    assert (int(found.greater), int(found.equal)) == places
    expected = INF if scores[target] == -INF else math.log(sum(map(math.exp, scores))) - scores[target]
    assert float(found.nll) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(rows, st.data())
def test_nan_is_never_ranked(row, data):
    scores, target = list(row[0]), row[1]
    scores[data.draw(st.integers(0, len(scores) - 1))] = NAN
    with pytest.raises(DataError, match="NaN"):
        metric.greater_equal(scores, target)
    with pytest.raises(RankError, match="NaN"):
        rank_logits(torch.tensor([scores]), torch.tensor([target]))
    for backend in BACKENDS:
        with pytest.raises(RankError, match="NaN"):
            ranked_by(backend, scores, target)
