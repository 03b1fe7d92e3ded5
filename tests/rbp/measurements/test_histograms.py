"""Measured distributions of ranks: entropies of bins and of samples; the thresholds at which ranks are counted."""

import numpy as np
import pytest
from simulated import in_bins

from companion.stats.rank_families import family
from companion.stats.rank_fits import RankDistribution
from rbp.measurements import histograms
from rbp.measurements.rank_counts import RankCounts


def test_entropy_of_bins_brackets_the_truth():
    true = RankDistribution(family("zipf_mandelbrot"), (1.4, 0.3), 5000)
    single = RankCounts(np.arange(1, 5001), np.arange(1, 5001), true.masses * 1e9, 5000)
    assert histograms.entropy(single) == pytest.approx((true.entropy,) * 3, rel=1e-5)
    smooth, least, greatest = histograms.entropy(in_bins(single, np.unique(np.round(np.geomspace(1, 5001, 40)))))
    assert least < true.entropy < greatest
    assert smooth == pytest.approx(true.entropy, abs=2e-4)
    assert greatest - least < 0.03
