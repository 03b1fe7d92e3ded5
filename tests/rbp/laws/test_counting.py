"""What counting leaves open: against simulated counts."""

import numpy as np
import pytest
from scipy.stats import binom, t

from rbp.laws.counting import counting_error, neg_log_rbp_interval, tokens_needed
from rbp.laws.power import fit_power_law

SIZES = np.geomspace(1e6, 1e10, 8)
VALUES = 0.05 * (SIZES / 1e8) ** -0.2


@pytest.mark.parametrize("share", [0.3, 0.8, 0.999])
def test_counting_error_is_the_spread_of_simulated_counts(share):
    hits = np.random.default_rng(1).binomial(200_000, share, 20_000)
    spread = np.log(-np.log(hits / 200_000)).std()
    assert counting_error(-np.log(share), 200_000) == pytest.approx(spread, rel=0.03)


def test_the_tokens_needed_leave_the_error_of_simulated_measurements():
    sizes, values, count = SIZES[:4], VALUES[:4], 4
    misses = np.random.default_rng(2).binomial(20_000, -np.expm1(-values), size=(300, count))
    exponents = [fit_power_law(sizes, -np.log1p(-row / 20_000)).alpha for row in misses]
    half_width = t.ppf(0.975, count - 2) * np.std(exponents)
    assert tokens_needed(sizes, values, half_width) == pytest.approx(20_000, rel=0.25)  # twice the error's 12%
    assert tokens_needed(sizes, values, half_width, design_effect=3.0) == pytest.approx(60_000, rel=0.25)


def test_interval_solves_the_binomial_tails():
    low, high = neg_log_rbp_interval(132065, 317414)
    # Clopper and Pearson: at each end the observed count is just 2.5% likely or rarer
    assert binom.sf(132065 - 1, 317414, np.exp(-high)) == pytest.approx(0.025, rel=1e-6)
    assert binom.cdf(132065, 317414, np.exp(-low)) == pytest.approx(0.025, rel=1e-6)
