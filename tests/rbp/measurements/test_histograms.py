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


@pytest.mark.parametrize(
    ("share", "neighbours"),
    [([0.5, 0.3, 0.2], [(0, 2), (1, 2)]), ([0.6, 0.4, 0], [(0, 1)])],
    ids=["full", "last empty"],
)
def test_a_bin_is_filled_by_the_slope_between_its_neighbours(share, neighbours):
    """Bins of 1, 2 and 6 ranks, the middles of whose logarithms are 0, ln √6 and ln 6."""
    low, high, share = np.array([1, 2, 4]), np.array([1, 3, 9]), np.array(share)
    with np.errstate(divide="ignore"):
        density, middle = np.log(share / (high - low + 1)), np.log([1, 6**0.5, 6])
    truth = -share[0] * np.log(share[0])
    for i, (a, b) in enumerate(neighbours, start=1):
        mass = np.arange(low[i], high[i] + 1.0) ** ((density[b] - density[a]) / (middle[b] - middle[a]))
        mass *= share[i] / mass.sum()
        truth -= (mass * np.log(mass)).sum()
    found = histograms.entropy(RankCounts(low, high, 1000 * share, 9))[0]
    assert found == pytest.approx(truth + len(neighbours) / (2 * 1000))
