import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import betaln, expit
from scipy.stats import t
from simulated import chain, rows, varying

from rbp.core.errors import DataError, FitError
from rbp.stats.hit_models import Documents, fit_beta, held_out, log_likelihood, summed


def gains(text):
    return held_out(summed(*text)).set_index("model")


def test_independent_tokens_gain_from_no_law():
    found = gains(rows(np.random.default_rng(1).random((200, 100)) < 0.4))
    assert (found["gain"].abs() < 1e-3).all()
    entropy = 0.4 * math.log(0.4) + 0.6 * math.log(0.6)
    assert found["independence"].to_numpy() == pytest.approx([entropy] * 3, abs=0.01)


def test_a_chain_gains_what_information_theory_says():
    hit, stay = 0.6, 0.85
    found = gains(chain(np.random.default_rng(2), 300, 300, hit, stay))
    back = hit * (1 - stay) / (1 - hit)

    def entropy(p):
        return -p * math.log(p) - (1 - p) * math.log(1 - p)

    expected = entropy(hit) - hit * entropy(stay) - (1 - hit) * entropy(back)
    assert found.loc["markov", "gain"] == pytest.approx(expected, abs=0.005)
    assert found.loc["markov", "low"] < expected < found.loc["markov", "high"]
    assert found.loc["markov", "gain"] > found.loc["documents", "gain"] + 0.02


def test_documents_that_differ_gain_from_rates_of_their_own():
    found = gains(varying(np.random.default_rng(3), 400, 100, 2.0, 2.0))
    assert found.loc["documents", "gain"] > found.loc["markov", "gain"] + 0.02
    assert found.loc["both", "gain"] == pytest.approx(found.loc["documents", "gain"], abs=0.01)


def test_the_beta_distribution_is_found():
    counts = summed(*varying(np.random.default_rng(4), 3000, 50, 2.0, 5.0)).all
    assert fit_beta(counts) == pytest.approx((2 / 7, 1 / 7), rel=0.08)


def test_the_beta_distribution_is_the_most_likely_by_gamma_functions():
    counts = summed(*varying(np.random.default_rng(5), 300, 40, 0.4, 0.7)).all

    def likelihood(mean, spread):
        a, b = mean / spread, (1 - mean) / spread
        return float((betaln(a + counts[:, 0], b + counts[:, 1]) - betaln(a, b)).sum())

    mean, spread = fit_beta(counts)
    search = minimize(lambda x: -likelihood(expit(x[0]), np.exp(x[1])), [0.0, 0.0], options={"gtol": 1e-9})
    assert (mean, spread) == pytest.approx((expit(search.x[0]), np.exp(search.x[1])), rel=1e-5)
    for step in (1e-6, -1e-6):  # its neighbours are no more likely, as far as digits go
        assert likelihood(mean, spread) >= likelihood(mean * (1 + step), spread) - 1e-11
        assert likelihood(mean, spread) >= likelihood(mean, spread * (1 + step)) - 1e-11


def test_documents_that_are_too_alike_have_one_rate():
    """Each has five hits of ten: rates vary less than chance would make them, and the maximum lies at no spread."""
    even = Documents(*(np.full((20, 2), n) for n in (0, 5, 0)))
    assert fit_beta(even.all) == (0.5, 0.0)
    assert log_likelihood(even, even, "documents") == pytest.approx(log_likelihood(even, even, "independence"), rel=0)
    with pytest.raises(FitError, match="both hits and misses"):
        fit_beta(np.array([[3, 0], [0, 2]]))


def test_the_likelihood_is_that_of_the_sequence():
    """A document of three tokens, hit, hit, miss, step by step."""
    train = Documents(np.array([[1, 1]]), np.array([[3, 1]]), np.array([[1, 2]]))
    test = summed([1, 1, 0], [0, 0, 0], [0, 1, 2])
    assert (test.first.tolist(), test.after_hit.tolist(), test.after_miss.tolist()) == ([[1, 0]], [[1, 1]], [[0, 0]])
    rate, stay = 5.5 / 10, 3.5 / 5
    assert log_likelihood(train, test, "independence")[0] == pytest.approx(math.log(rate * rate * (1 - rate)))
    assert log_likelihood(train, test, "markov")[0] == pytest.approx(math.log(rate * stay * (1 - stay)))


def test_few_documents_cannot_be_held_out():
    with pytest.raises(DataError, match="3 documents are too few"):
        held_out(summed(*rows(np.eye(3, dtype=bool))))


def test_the_interval_of_a_gain_widens_with_its_level():
    documents = summed(*varying(np.random.default_rng(3), 100, 50, 2.0, 2.0))
    narrow, wide = (held_out(documents, level=level).set_index("model") for level in (0.6827, 0.9545))
    width = [each["high"] - each["low"] for each in (narrow, wide)]
    assert (width[1] / width[0]).to_numpy() == pytest.approx(t.ppf(0.97725, 99) / t.ppf(0.84135, 99))
