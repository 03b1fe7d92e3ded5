"""What counting leaves open: against simulated counts, and at the floor that follows from it."""

import numpy as np
import pytest
from scipy.stats import norm

from rbp.errors import ParameterError
from rbp.laws.counting import alpha_error, counting_error, neg_log_rbp_variance, noise_floor, tokens_needed
from rbp.laws.power import fit_power_law

SIZES = np.geomspace(1e6, 1e10, 8)
VALUES = 0.05 * (SIZES / 1e8) ** -0.2


@pytest.mark.parametrize("share", [0.3, 0.8, 0.999])
def test_counting_error_is_the_spread_of_simulated_counts(share: float) -> None:
    tokens = 200_000
    hits = np.random.default_rng(1).binomial(tokens, share, 20_000)
    spread = np.log(-np.log(hits / tokens)).std()
    assert counting_error(-np.log(share), tokens) == pytest.approx(spread, rel=0.03)


def test_at_the_floor_the_interval_is_as_wide_as_asked():
    for tokens, precision in ((10_000, 0.5), (300_000, 0.2)):
        y = noise_floor(tokens, precision=precision)
        variance = neg_log_rbp_variance(tokens * np.exp(-y), tokens)
        assert norm.ppf(0.975) * np.sqrt(variance) == pytest.approx(precision * y, rel=1e-6)
    assert 317_414 * -np.expm1(-noise_floor(317_414)) == pytest.approx(15.4, abs=0.1)
    assert noise_floor(10) == float("inf")


def simulated_exponents(tokens, draws):
    rng = np.random.default_rng(2)
    misses = rng.binomial(tokens, -np.expm1(-VALUES), size=(draws, SIZES.size))
    return np.array([fit_power_law(SIZES, -np.log1p(-row / tokens)).alpha for row in misses])


def test_the_error_of_alpha_is_that_of_simulated_measurements():
    assert alpha_error(SIZES, VALUES, 20_000) == pytest.approx(simulated_exponents(20_000, 300).std(), rel=0.12)


def test_the_tokens_needed_give_what_was_asked():
    from scipy.stats import t

    tokens = tokens_needed(SIZES, VALUES, 0.02, design_effect=3.0)
    error = alpha_error(SIZES, VALUES, tokens / 3)
    assert t.ppf(0.975, 6) * error == pytest.approx(0.02, rel=1e-9)
    assert tokens_needed(SIZES, VALUES, 0.01) == pytest.approx(4 * tokens_needed(SIZES, VALUES, 0.02))
    with pytest.raises(ParameterError, match="2 models"):
        tokens_needed(SIZES[:2], VALUES[:2], 0.02)
    with pytest.raises(ParameterError, match="above 0"):
        tokens_needed(SIZES, VALUES, 0.0)
