"""The simulated coverage of intervals: its table again, and the kinds against SciPy's."""

import numpy as np
import pytest
from scipy import stats

from companion.evidence.interval_coverage import intervals
from rbp.laws.resampling import log_neg_log_share


def test_percentiles_reversed_percentiles_and_bca_are_those_of_scipy():
    rng = np.random.default_rng(6)
    lengths = rng.lognormal(5, 0.7, 15).astype(int) + 20
    sums = np.column_stack([lengths - rng.binomial(lengths, rng.beta(2.45, 46.55, 15)), lengths]).astype(float)
    times = rng.multinomial(15, np.full(15, 1 / 15), size=20_000).astype(float)
    ends = {kind: ends for kind, level, *ends in intervals(sums, log_neg_log_share, times, lengths) if level == 0.8}

    def statistic(hits, tokens, axis):
        return np.log(-np.log(hits.sum(axis) / tokens.sum(axis)))

    options = {"paired": True, "vectorized": True, "n_resamples": 20_000, "confidence_level": 0.8}
    for method in ("percentile", "basic", "BCa"):
        expected = stats.bootstrap((*sums.T,), statistic, **options, method=method, rng=7).confidence_interval
        assert ends[method] == pytest.approx([expected.low, expected.high], abs=0.04 * (expected.high - expected.low))
