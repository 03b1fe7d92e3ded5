"""Counting error: against simulated counts, and against what the published exact counts state."""

import numpy as np
import pytest

from rbp.stats import counting


@pytest.mark.parametrize("share", [0.3, 0.8, 0.999])
def test_counting_error_is_the_spread_of_simulated_counts(share: float) -> None:
    tokens = 200_000
    hits = np.random.default_rng(1).binomial(tokens, share, 20_000)
    spread = np.log(-np.log(hits / tokens)).std()
    assert counting.counting_error(-np.log(share), tokens) == pytest.approx(spread, rel=0.03)
