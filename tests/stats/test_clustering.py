import numpy as np
import pytest

from rbp.core.errors import DataError
from rbp.stats.clustering import design_effect, draws, resampled_means, variance_parts


def documents(rng, count, length, spread):
    """Misses of documents whose rates vary: (values, documents)."""
    rate = np.clip(0.3 + spread * rng.standard_normal(count), 0.01, 0.99)
    values = rng.random((count, length)) < rate[:, None]
    return values.ravel().astype(float), np.repeat(np.arange(count), length)


def test_independent_tokens_have_none():
    values, document = documents(np.random.default_rng(0), 3000, 20, 0.0)
    assert design_effect(values, document) == pytest.approx(1, abs=0.1)
    assert variance_parts(values, document).shared == pytest.approx(0, abs=0.005)


def test_it_is_what_resampling_documents_gives():
    values, document = documents(np.random.default_rng(1), 400, 50, 0.15)
    drawn = resampled_means(values, document, resamples=4000).var()
    single = values.var() / values.size
    assert design_effect(values, document) == pytest.approx(drawn / single, rel=0.08)


def test_the_draws_are_the_same_however_many_at_a_time():
    whole = np.random.default_rng(3).multinomial(7, [1 / 7] * 7, size=10)
    for at_once in (None, 1, 4, 100):
        parts = list(draws(7, 10, at_once=at_once, seed=3))
        assert np.array_equal(np.concatenate(parts), whole)
        assert max(map(len, parts)) == min(at_once or 10, 10)


def test_whole_documents_that_miss_have_the_length_as_effect():
    values, document = np.repeat(np.random.default_rng(2).random(500) < 0.1, 30), np.repeat(np.arange(500), 30)
    assert design_effect(values, document) == pytest.approx(30, rel=0.01)
    assert variance_parts(values, document).shared == pytest.approx(1)


def test_the_parts_are_those_that_were_put_in():
    values, document = documents(np.random.default_rng(3), 4000, 40, 0.1)
    parts = variance_parts(values, document)
    assert parts.between == pytest.approx(0.01, rel=0.1)
    assert parts.within + parts.between == pytest.approx(values.var(), rel=0.01)
    assert design_effect(values, document) == pytest.approx(1 + 39 * parts.shared, rel=0.05)


def test_one_document_says_nothing():
    with pytest.raises(DataError, match="two documents"):
        design_effect([1.0, 0.0], [3, 3])
    assert np.isnan(design_effect([0.0, 0.0], [1, 2]))
