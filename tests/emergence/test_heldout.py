import math

import numpy as np
import pytest
from simulated import chain, rows, varying

from rbp.emergence.heldout import Documents, fit_beta, held_out, log_likelihood, summed
from rbp.errors import DataError


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
    assert fit_beta(counts) == pytest.approx((2.0, 5.0), rel=0.08)


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
