"""What counting leaves open: against simulated counts."""

import numpy as np
import pytest
from scipy.stats import t

from rbp.errors import ParameterError
from rbp.laws.counting import counting_error, tokens_needed
from rbp.laws.power import fit_power_law

SIZES = np.geomspace(1e6, 1e10, 8)
VALUES = 0.05 * (SIZES / 1e8) ** -0.2


@pytest.mark.parametrize("share", [0.3, 0.8, 0.999])
def test_counting_error_is_the_spread_of_simulated_counts(share: float) -> None:
    tokens = 200_000
    hits = np.random.default_rng(1).binomial(tokens, share, 20_000)
    spread = np.log(-np.log(hits / tokens)).std()
    assert counting_error(-np.log(share), tokens) == pytest.approx(spread, rel=0.03)


def simulated_exponents(tokens, draws):
    rng = np.random.default_rng(2)
    misses = rng.binomial(tokens, -np.expm1(-VALUES), size=(draws, SIZES.size))
    return np.array([fit_power_law(SIZES, -np.log1p(-row / tokens)).alpha for row in misses])


def test_the_tokens_needed_leave_the_error_of_simulated_measurements():
    half_width = t.ppf(0.975, SIZES.size - 2) * simulated_exponents(20_000, 300).std()
    assert tokens_needed(SIZES, VALUES, half_width) == pytest.approx(20_000, rel=0.25)  # twice the error's 12%
    assert tokens_needed(SIZES, VALUES, half_width, design_effect=3.0) == pytest.approx(60_000, rel=0.25)
    assert tokens_needed(SIZES, VALUES, 0.01) == pytest.approx(4 * tokens_needed(SIZES, VALUES, 0.02))
    with pytest.raises(ParameterError, match="2 models"):
        tokens_needed(SIZES[:2], VALUES[:2], 0.02)
    with pytest.raises(ParameterError, match="above 0"):
        tokens_needed(SIZES, VALUES, 0.0)
