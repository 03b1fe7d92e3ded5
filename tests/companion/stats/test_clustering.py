"""Design effects and bounds of trends: by hand, by their definition, and against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.stats.clustering import cluster_sums, log_design_effect, log_scatter_effect, scatter_sums, trend_bound


def documents(rng, count, length, spread):
    """Misses of documents whose rates vary: (values, documents)."""
    rate = np.clip(0.3 + spread * rng.standard_normal(count), 0.01, 0.99)
    values = rng.random((count, length)) < rate[:, None]
    return values.ravel().astype(float), np.repeat(np.arange(count), length)


def design_effect(values, documents):
    return float(np.exp(log_design_effect(cluster_sums(values, documents).sum(axis=0))))


def test_it_is_what_resampling_documents_gives():
    rng = np.random.default_rng(1)
    values, document = documents(rng, 400, 50, 0.15)
    sums = values.reshape(400, 50).sum(axis=1)
    means = sums[rng.integers(0, 400, (4000, 400))].sum(axis=1) / values.size
    single = values.var() / values.size
    assert design_effect(values, document) == pytest.approx(means.var() / single, rel=0.08)
    piece = np.arange(values.size) // 10  # clusters inside documents
    sums = cluster_sums(values, piece, document)
    assert len(sums) == 400
    assert np.exp(log_design_effect(sums.sum(axis=0))) == pytest.approx(design_effect(values, piece), rel=1e-12)
    # two documents, whose sums lie 1 from the mean: 2·(1 + 1)/(2 − 1) = 4; of 4 independent tokens 4·¼ = 1
    assert design_effect([1, 1, 0, 0], [0, 0, 1, 1]) == pytest.approx(4)


def test_the_scatters_effect_by_its_definition():
    """tr(P·V)/(m − 2), cluster by cluster, the derivative of ln(−ln(1 − p)) by differences."""
    rng, size = np.random.default_rng(3), np.array([1.0, 3.0, 7.0, 40.0])
    miss, cluster = rng.random((60, 4)) < [0.7, 0.5, 0.2, 0.1], np.repeat(np.arange(12), 5)
    p, step = miss.mean(axis=0), 1e-6
    parts = [miss[cluster == c].sum(axis=0) - 5 * p for c in range(12)]
    covariance = sum(np.outer(part, part) for part in parts) * 12 / 11 / 60**2
    slope = (np.log(-np.log1p(-p - step)) - np.log(-np.log1p(-p + step))) / (2 * step)
    weight = np.diag(60 / (p * (1 - p) * slope**2))
    design = np.column_stack([np.ones(4), np.log(size)])
    rest = weight - weight @ design @ np.linalg.inv(design.T @ weight @ design) @ design.T @ weight
    effect = np.trace(rest @ (covariance * np.outer(slope, slope))) / 2
    found = log_scatter_effect(size)(scatter_sums(miss, cluster, cluster).sum(axis=0))
    assert np.exp(found) == pytest.approx(effect, rel=1e-6)


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
