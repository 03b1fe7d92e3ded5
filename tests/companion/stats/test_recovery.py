import numpy as np
import pytest

from companion.stats import recovery


def recover_tokens(neg_log_rbp, *, relative_error, candidates):
    """N behind several −ln RBP_k, each read to a relative standard deviation."""
    value = np.asarray(neg_log_rbp)
    return recovery.recover_total(np.exp(-value), value * np.exp(-value) * relative_error, candidates)


@pytest.mark.parametrize("tokens", [24_001, 30_000])
def test_simulated_counts_are_found(tokens):
    rng = np.random.default_rng(tokens)
    for _ in range(4):
        value = -np.log(rng.binomial(tokens, rng.uniform(0.3, 0.97, 40)) / tokens)
        value *= 1 + rng.normal(0, 2e-6, value.size)
        result = recover_tokens(value, relative_error=2e-6, candidates=np.arange(10_000, 100_000))
        assert (result.tokens, result.identified) == (tokens, True)


def test_arbitrary_numbers_are_not_identified():
    rng = np.random.default_rng(0)
    candidates = np.arange(10_000, 20_000)
    best = []
    for _ in range(20):
        found = recover_tokens(rng.uniform(0.02, 1.2, 40), relative_error=2e-6, candidates=candidates)
        assert not found.identified
        best.append(found.log_likelihood)
    # Markov's bound behind the rule: the best likelihood exceeds candidates/q in a share q of the draws at most
    for q in (0.5, 0.2):
        assert np.mean(np.array(best) > np.log(candidates.size / q)) <= q
