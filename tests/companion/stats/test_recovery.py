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
