"""Rank distributions against scipy's, against their own definitions, and their fits against what made the data."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from rbp.errors import DataError, FitError, ParameterError
from rbp.rank_distributions import FAMILIES, RankCounts, RankDistribution, covariance, family, fit, log_likelihood

V = 400
MEMBERS = {
    "lognormal": {"mu": 0.7, "sigma": 1.6},
    "lognormal_rounded": {"mu": 0.7, "sigma": 1.6},
    "log_quadratic": {"s": 1.9, "tau": -0.1},
    "power_law": {"s": 1.7},
    "power_law_cutoff": {"s": 1.1, "scale": 60.0},
    "zipf_mandelbrot": {"s": 2.0, "shift": 1.5},
    "weibull": {"scale": 4.0, "shape": 0.5},
    "negative_binomial": {"size": 0.4, "mean": 12.0},
    "mass_at_1_lognormal": {"share_1": 0.45, "mu": 1.0, "sigma": 1.2},
}


def member(name: str, vocabulary: int = V, first: int = 1) -> RankDistribution:
    return RankDistribution.of(family(name), MEMBERS[name], vocabulary, first)


def test_every_family_has_a_member_here() -> None:
    assert set(MEMBERS) == set(FAMILIES)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("first", [1, 2])
def test_one_interface(name: str, first: int) -> None:
    it = member(name, first=first)
    ranks = np.arange(first, V + 1)
    assert it.pmf(ranks).sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(it.cdf(ranks), np.cumsum(it.pmf(ranks)), atol=1e-12)
    np.testing.assert_allclose(it.cdf(ranks) + it.sf(ranks), 1, atol=1e-12)
    assert it.pmf([first - 1, V + 1, first + 0.5]).tolist() == [0, 0, 0]
    assert (it.quantile(it.cdf(ranks[:50])) == ranks[:50]).all()
    p = it.pmf(ranks)
    assert it.entropy == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum())
    drawn = it.sample(20_000, 3)
    assert drawn.min() >= first
    seen = np.bincount(drawn, minlength=V + 1)[first:]
    some = p * len(drawn) > 5
    assert stats.chisquare(seen[some], p[some] / p[some].sum() * seen[some].sum()).pvalue > 1e-4


def _truncated(masses: np.ndarray) -> np.ndarray:
    return masses / masses.sum()


@pytest.mark.parametrize(
    ("name", "masses"),
    [
        ("power_law", lambda k: stats.zipfian.pmf(k, 1.7, V)),
        ("power_law_cutoff", lambda k: k**-1.1 * stats.planck.pmf(k, 1 / 60)),
        ("lognormal", lambda k: stats.lognorm.pdf(k, 1.6, scale=np.exp(0.7))),
        ("negative_binomial", lambda k: stats.nbinom.pmf(k - 1, 0.4, 0.4 / 12.4)),
        ("weibull", lambda k: stats.weibull_min.sf(k - 1, 0.5, scale=4) - stats.weibull_min.sf(k, 0.5, scale=4)),
        ("zipf_mandelbrot", lambda k: (k + 1.5) ** -2.0),
    ],
)
def test_masses_are_scipys(name: str, masses) -> None:
    ranks = np.arange(1.0, V + 1)
    np.testing.assert_allclose(member(name).pmf(ranks), _truncated(masses(ranks)), rtol=1e-9, atol=1e-15)


def test_rounded_lognormal_is_scipys_with_no_end() -> None:
    ranks = np.arange(1.0, V)
    cdf = lambda at: stats.lognorm.cdf(at, 1.6, scale=np.exp(0.7))  # noqa: E731
    np.testing.assert_allclose(
        member("lognormal_rounded").pmf(ranks), (cdf(ranks + 0.5) - cdf(ranks - 0.5)) / (1 - cdf(0.5)), rtol=1e-8
    )
    # from rank 2, as the authors' library conditions on the smallest rank
    at = member("lognormal_rounded", first=2).pmf(7)
    assert at == pytest.approx((cdf(7.5) - cdf(6.5)) / (1 - cdf(1.5)), rel=1e-8)


def test_lognormal_over_a_large_vocabulary_is_equation_10() -> None:
    with mp.workdps(30):
        weight = [mp.npdf(mp.log(k), -6.4, 4.8) / k for k in range(1, 20_001)]
        expected = weight[0] / mp.fsum(weight)
    it = RankDistribution.of(family("lognormal"), {"mu": -6.4, "sigma": 4.8}, 20_000)
    assert it.pmf(1) == pytest.approx(float(expected), rel=1e-12)


def test_point_mass_leaves_the_other_ranks_their_shape() -> None:
    it, plain = member("mass_at_1_lognormal"), RankDistribution.of(family("lognormal"), {"mu": 1.0, "sigma": 1.2}, V)
    assert it.pmf(1) == pytest.approx(0.45)
    assert it.pmf(9) / it.pmf(4) == pytest.approx(plain.pmf(9) / plain.pmf(4))


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("binned", [False, True])
def test_fits_recover_the_parameters(name: str, binned: bool) -> None:
    true = member(name)
    # exact shares in place of draws: the likelihood's maximum is then at the truth itself
    counts = RankCounts(np.arange(1, V + 1), np.arange(1, V + 1), true.masses * 1e6, V)
    if binned:
        counts = counts.binned(np.unique(np.round(np.geomspace(1, V + 1, 30))))
    found = fit(true.family, counts)
    np.testing.assert_allclose(found.distribution.values, true.values, rtol=2e-3)
    assert found.log_likelihood >= log_likelihood(true, counts) - 1e-3
    assert not found.at_limit


def test_a_fit_from_rank_2_ignores_rank_1() -> None:
    true = member("lognormal")
    drawn = true.sample(30_000, 1)
    less = RankCounts.of_ranks(drawn, V)
    more = less.with_counts(np.where(less.low == 1, 10 * less.count, less.count))
    first, second = (fit(true.family, counts, first=2).distribution.values for counts in (less, more))
    np.testing.assert_allclose(first, second, rtol=1e-5)


def test_bins_lose_little() -> None:
    counts = RankCounts.of_ranks(member("lognormal").sample(50_000, 2), V)
    binned = counts.binned(np.unique(np.round(np.geomspace(1, V + 1, 40))))
    exact, coarse = (fit(family("lognormal"), each) for each in (counts, binned))
    np.testing.assert_allclose(exact.distribution.values, coarse.distribution.values, rtol=0.05)
    assert coarse.log_likelihood > exact.log_likelihood  # a bin is likelier than its ranks


def test_no_lognormal_where_ranks_curve_upwards() -> None:
    true = member("log_quadratic")  # τ < 0
    counts = RankCounts(np.arange(1, V + 1), np.arange(1, V + 1), true.masses * 1e6, V)
    found, power = fit(family("lognormal"), counts), fit(family("power_law"), counts)
    assert found.at_limit
    assert found.per_token == pytest.approx(power.per_token, abs=1e-6)
    with pytest.raises(FitError, match="no curved maximum"):
        covariance(found, counts)


@pytest.mark.parametrize("name", ["lognormal", "zipf_mandelbrot", "power_law"])
def test_intervals_cover(name: str) -> None:
    true = member(name, vocabulary=200)
    inside = []
    for seed in range(60):
        counts = RankCounts.of_ranks(true.sample(3000, seed), 200)
        found = fit(true.family, counts, start=true.values)
        error = np.sqrt(np.diag(covariance(found, counts)))
        inside.append(np.abs(np.array(found.distribution.values) - true.values) <= 1.96 * error)
    covered = np.mean(inside, axis=0)
    assert (covered > 0.85).all()  # of 60, at a true 95 per cent: 0.85 is exceeded in 99.8 per cent of all cases
    assert covered.mean() < 1 or name != "power_law"


def test_bad_input_is_named() -> None:
    with pytest.raises(DataError, match="whole"):
        RankCounts.of_ranks([1.5, 2.0], V)
    with pytest.raises(DataError, match="within 1 … 400"):
        RankCounts.of_ranks([1, 401], V)
    with pytest.raises(DataError, match="at least one"):
        RankCounts.of_ranks([1, 2], V).since(3)
    with pytest.raises(DataError, match="crosses"):
        RankCounts(np.array([1, 3]), np.array([2, 9]), np.ones(2), V).binned([1, 5, 10])
    with pytest.raises(ParameterError, match="lognormal"):
        family("lognorml")
    with pytest.raises(ParameterError, match="sigma"):
        RankDistribution.of(family("lognormal"), {"mu": 1}, V)
