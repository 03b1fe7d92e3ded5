"""Rank distributions against scipy's, and against their own definitions."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from simulated import MEMBERS

from companion.stats.rank_families import FAMILIES, family
from companion.stats.rank_fits import RankDistribution
from rbp.errors import DataError, ParameterError
from rbp.measurements.rank_counts import RankCounts

V = 400


def member(name: str, vocabulary: int = V, first: int = 1) -> RankDistribution:
    return RankDistribution.of(family(name), MEMBERS[name], vocabulary, first)


@pytest.mark.parametrize(
    ("low", "high", "count"),
    [
        ([0, 2], [1, 3], [1, 1]),
        ([1, 4], [2, 3], [1, 1]),
        ([1, 2], [2, 3], [1, 1]),
        ([1, 2], [3, 4], [1, 1]),
        ([1, 9], [8, V + 1], [1, 1]),
        ([1, 2], [1, 2], [1, -1]),
        ([1, 2], [1, 2], [0, 0]),
        ([1, 2], [1], [1, 1]),
        ([1, 2], [1, 2], [1]),
        ([], [], []),
    ],
)
def test_bins_that_are_none_are_refused(low: list[int], high: list[int], count: list[int]) -> None:
    with pytest.raises(DataError, match="bins"):
        RankCounts(np.array(low), np.array(high), np.array(count, dtype=float), V)


def test_parameters_of_no_distribution_are_named() -> None:
    with pytest.raises(ParameterError, match=r"power_law has no distribution at {'s': nan}"):
        _ = RankDistribution.of(family("power_law"), {"s": np.nan}, V).masses


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
    p = it.pmf(ranks)
    assert it.entropy == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum())


def _truncated(masses: np.ndarray) -> np.ndarray:
    return masses / masses.sum()


@pytest.mark.parametrize(
    ("name", "masses"),
    [
        ("power_law", lambda k: stats.zipfian.pmf(k, 1.7, V)),
        ("power_law_cutoff", lambda k: k**-1.1 * stats.planck.pmf(k, 1 / 60)),
        ("lognormal", lambda k: stats.lognorm.pdf(k, 1.6, scale=np.exp(0.7))),
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


@pytest.mark.parametrize("rank", [1, 2, 7, 99, 700, 50_000])
def test_rounded_masses_keep_their_digits_in_the_tail(rank: int) -> None:
    with mp.workdps(40):
        above = lambda x: mp.ncdf(-(mp.log(x) + 14) / mp.mpf("5.5"))  # noqa: E731
        half = mp.mpf(1) / 2
        rounded = (above(rank - half) - above(rank + half)) / above(half)
    it = RankDistribution.of(family("lognormal_rounded"), {"mu": -14.0, "sigma": 5.5}, 50_688)
    assert it.pmf(rank) == pytest.approx(float(rounded), rel=2e-12)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("first", [1, 2])
def test_parameters_survive_their_natural_form(name: str, first: int) -> None:
    kind, values = family(name), np.array(list(MEMBERS[name].values()))
    natural = kind.natural(values, first)
    np.testing.assert_allclose(kind.named(natural, first), values, rtol=1e-13)


def test_bad_input_is_named() -> None:
    with pytest.raises(DataError, match="whole"):
        RankCounts.of_ranks([1.5, 2.0], V)
    for outside in (0, 401):
        with pytest.raises(DataError, match="within 1 … 400"):
            RankCounts.of_ranks([outside, 7], V)
    with pytest.raises(DataError, match="at least one"):
        RankCounts.of_ranks([1, 2], V).since(3)
    with pytest.raises(ParameterError, match="lognormal"):
        family("lognorml")
    with pytest.raises(ParameterError, match="sigma"):
        RankDistribution.of(family("lognormal"), {"mu": 1}, V)
