"""Rank distributions and their fits: against scipy, mpmath, what made the data, and at the edges of the families."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from simulated import in_bins

from companion.stats.rank_families import FAMILIES, family
from companion.stats.rank_fits import RankDistribution, fit
from rbp.measurements.rank_counts import RankCounts

V = 400
RANKS = np.arange(1.0, V + 1)
#: a member of each family of rank distributions
MEMBERS = {
    "lognormal": {"mu": 0.7, "sigma": 1.6},
    "lognormal_rounded": {"mu": 0.7, "sigma": 1.6},
    "lognormal_ceiling": {"mu": 0.7, "sigma": 1.6},
    "power_law": {"s": 1.7},
    "power_law_cutoff": {"s": 1.1, "scale": 60.0},
    "zipf_mandelbrot": {"s": 2.0, "shift": 1.5},
}


def member(name, first=1):
    return RankDistribution.of(family(name), MEMBERS[name], V, first)


def from_masses(masses, first=1):
    """Shares in place of draws: the likelihood's maximum is then at the truth itself."""
    ranks = np.arange(first, first + len(masses))
    return RankCounts(ranks, ranks, masses / masses.sum() * 1e6, int(ranks[-1]))


def cdf(at):
    """Of the members' lognormal."""
    return stats.lognorm.cdf(at, 1.6, scale=np.exp(0.7))


#: those whose last rank is V; of the lognormal rounded to the nearest, the last has no end
MASSES = {
    "power_law": stats.zipfian.pmf(RANKS, 1.7, V),
    "power_law_cutoff": RANKS**-1.1 * stats.planck.pmf(RANKS, 1 / 60),
    "lognormal": stats.lognorm.pdf(RANKS, 1.6, scale=np.exp(0.7)),
    "lognormal_ceiling": cdf(RANKS) - cdf(RANKS - 1),
    "lognormal_rounded": np.append(cdf(RANKS + 0.5)[:-1], 1) - cdf(RANKS - 0.5),
    "zipf_mandelbrot": (RANKS + 1.5) ** -2.0,
}


@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("name", MEMBERS)
def test_masses_and_entropy_are_scipys(name, first):
    it, ranks = member(name, first=first), RANKS[first - 1 :]
    p = MASSES[name][first - 1 :] / MASSES[name][first - 1 :].sum()
    np.testing.assert_allclose(it.pmf(ranks), p, rtol=1e-8, atol=1e-15)
    np.testing.assert_allclose(it.cdf(ranks), np.cumsum(p), atol=1e-12)
    np.testing.assert_allclose(it.cdf(ranks) + it.sf(ranks), 1, atol=1e-12)
    assert it.pmf([first - 1, V + 1, first + 0.5]).tolist() == [0, 0, 0]
    assert it.entropy == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum())


def test_the_tail_of_a_rounded_family_keeps_its_digits():
    it = RankDistribution.of(family("lognormal_rounded"), {"mu": -14.0, "sigma": 5.5}, 50_688)
    half = mp.mpf(1) / 2
    for rank in (1, 2, 7, 99, 700, 50_000):
        with mp.workdps(40):
            above = [mp.ncdf(-(mp.log(x) + 14) / mp.mpf("5.5")) for x in (rank - half, rank + half, half)]
        assert it.pmf(rank) == pytest.approx(float((above[0] - above[1]) / above[2]), rel=2e-12)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("binned", [False, True])
def test_fits_recover_the_parameters(name, binned):
    assert set(MEMBERS) == set(FAMILIES)
    true = member(name)
    counts = from_masses(true.masses)
    if binned:
        counts = in_bins(counts, np.unique(np.round(np.geomspace(1, V + 1, 30))))
    found = fit(true.family, counts)
    np.testing.assert_allclose(found.distribution.values, true.values, rtol=1e-9)
    assert found.log_likelihood == pytest.approx(counts.count @ np.log(counts.sums(true.masses, 1)), rel=1e-13)
    assert not found.at_limit


#: what stands at each edge, and in which direction ranks must change to lead inside
EDGES = {
    "lognormal": ("power_law", (1.7,), -(np.log(RANKS) ** 2)),
    "lognormal_rounded": ("power_law_rounded", (1.7,), -(np.log(RANKS) ** 2)),
    "power_law_cutoff": ("power_law", (1.2,), -RANKS / 20),
    "zipf_mandelbrot": ("geometric", (0.02,), (RANKS / 60) ** 2),
}


@pytest.mark.parametrize("name", EDGES)
def test_at_the_edge_the_fit_is_the_limit_and_just_inside_it_is_not(name):
    limit, values, inward = EDGES[name]
    true = RankDistribution(family(limit), values, V)
    for tilt in (-1e-2, -1e-5, 0.0, 1e-5, 1e-2):
        counts = from_masses(true.masses * np.exp(tilt * inward))
        found, at_limit = fit(family(name), counts), fit(family(limit), counts)
        assert found.at_limit == (tilt <= 0), tilt
        if found.at_limit:
            assert found.distribution == at_limit.distribution
            assert found.log_likelihood == pytest.approx(at_limit.log_likelihood, rel=1e-14)
        else:
            assert found.distribution.family.name == name
            assert found.log_likelihood > at_limit.log_likelihood + 1e-7 * tilt**2
        if tilt == 0:
            np.testing.assert_allclose(found.distribution.values, true.values, rtol=1e-10)
