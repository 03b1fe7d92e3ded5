import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.evidence import published
from companion.stats.clustering import log_size_weights, trend_bound
from rbp.errors import DataError


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=2, max_size=40), st.integers(0, 3))
def test_no_sharing_of_misses_gives_a_larger_variance_than_the_bound(tokens, shape):
    """Brute force: tokens that three models miss or not, every contrast's sum of squares against the bound."""
    weights = np.array([(-1, 0, 1), (-1, 0.25, 0.75), (0.5, -1, 0.5), (-0.5, -0.5, 1)][shape])
    missed = np.array(tokens, dtype=float)
    actual = float(((missed @ weights) ** 2).sum())
    bound = trend_bound(missed.sum(axis=0), weights)
    assert actual <= bound.sd**2 + 1e-9
    assert bound.change == pytest.approx((missed @ weights).sum())


def test_for_two_models_it_is_mcnemar_without_shared_misses():
    bound = trend_bound([1212, 1577], [-1, 1])
    assert bound.z == pytest.approx((1577 - 1212) / np.sqrt(1577 + 1212))
    assert bound.needed == pytest.approx((bound.z / 1.959964) ** 2, rel=1e-6)


def test_gpt2_rises_by_more_than_chance_allows():
    counts = published.gpt2_window_counts().query("k == 10000 and n == 1")
    misses = (counts["windows"] - counts["successes"]).to_numpy()
    sizes = counts["model"].map(published.models().set_index("model")["non_embedding_params"])
    order = np.argsort(sizes.to_numpy())
    ends = trend_bound(misses[order][[0, 3]], [-1, 1])
    assert (misses[order][0], misses[order][3]) == (1212, 1577)
    assert ends.needed == pytest.approx(12.4, abs=0.1)
    assert trend_bound(misses[order], log_size_weights(sizes.to_numpy()[order])).z > 4


def test_weights_must_balance():
    with pytest.raises(DataError, match="sum must be 0"):
        trend_bound([3, 4], [1, 1])
