"""Rank distributions and their fits: against scipy, mpmath, what made the data, and at the edges of the families."""

from collections.abc import Callable
from inspect import signature

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize
from simulated import MEMBERS, in_bins

from companion.stats.rank_families import FAMILIES, family
from companion.stats.rank_fits import Likelihood, RankDistribution, fit
from rbp.errors import DataError, FitError, ParameterError
from rbp.measurements import open_source
from rbp.measurements.rank_counts import RankCounts

V = 400
RANKS = np.arange(1.0, V + 1)


def member(name: str, vocabulary: int = V, first: int = 1) -> RankDistribution:
    return RankDistribution.of(family(name), MEMBERS[name], vocabulary, first)


def from_masses(masses: np.ndarray, first: int = 1) -> RankCounts:
    """Shares in place of draws: the likelihood's maximum is then at the truth itself."""
    ranks = np.arange(first, first + len(masses))
    return RankCounts(ranks, ranks, masses / masses.sum() * 1e6, int(ranks[-1]))


def coarse(counts: RankCounts) -> RankCounts:
    return in_bins(counts, np.unique(np.round(np.geomspace(1, counts.vocabulary + 1, 30))))


@pytest.fixture(scope="module")
def largest() -> RankCounts:
    """Of Pythia-12B on Wikipedia (figure 8c), over V = 50 688."""
    return next(own.counts for own in open_source("published").histograms if own.model.endswith("12b"))


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("first", [1, 2])
def test_one_interface(name, first):
    it, ranks = member(name, first=first), np.arange(first, V + 1)
    p = it.pmf(ranks)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(it.cdf(ranks), np.cumsum(p), atol=1e-12)
    np.testing.assert_allclose(it.cdf(ranks) + it.sf(ranks), 1, atol=1e-12)
    assert it.pmf([first - 1, V + 1, first + 0.5]).tolist() == [0, 0, 0]
    assert it.entropy == pytest.approx(-(p[p > 0] * np.log(p[p > 0])).sum())
    values = np.array(list(MEMBERS[name].values()))
    np.testing.assert_allclose(it.family.named(it.family.natural(values, first), first), values, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "masses"),
    [
        ("power_law", lambda k: stats.zipfian.pmf(k, 1.7, V)),
        ("power_law_cutoff", lambda k: k**-1.1 * stats.planck.pmf(k, 1 / 60)),
        ("lognormal", lambda k: stats.lognorm.pdf(k, 1.6, scale=np.exp(0.7))),
        ("zipf_mandelbrot", lambda k: (k + 1.5) ** -2.0),
    ],
)
def test_masses_are_scipys(name, masses):
    expected = masses(RANKS) / masses(RANKS).sum()
    np.testing.assert_allclose(member(name).pmf(RANKS), expected, rtol=1e-9, atol=1e-15)


def test_a_rounded_lognormal_has_no_end_and_keeps_its_digits_in_the_tail():
    def cdf(at):
        return stats.lognorm.cdf(at, 1.6, scale=np.exp(0.7))

    inner = RANKS[:-1]
    expected = (cdf(inner + 0.5) - cdf(inner - 0.5)) / (1 - cdf(0.5))
    np.testing.assert_allclose(member("lognormal_rounded").pmf(inner), expected, rtol=1e-8)
    # from rank 2, as the authors' library conditions on the smallest rank
    at = member("lognormal_rounded", first=2).pmf(7)
    assert at == pytest.approx((cdf(7.5) - cdf(6.5)) / (1 - cdf(1.5)), rel=1e-8)
    it = RankDistribution.of(family("lognormal_rounded"), {"mu": -14.0, "sigma": 5.5}, 50_688)
    half = mp.mpf(1) / 2
    for rank in (1, 7, 700, 50_000):
        with mp.workdps(40):
            above = [mp.ncdf(-(mp.log(x) + 14) / mp.mpf("5.5")) for x in (rank - half, rank + half, half)]
        assert it.pmf(rank) == pytest.approx(float((above[0] - above[1]) / above[2]), rel=2e-12)


# Definitions for mpmath: the mass of rank k up to a constant, in the natural parameters. A power of x rounded up or to
# the nearest is a difference of powers, a lognormal one of its distribution function, from above for the tail's digits.


def _lognormal(below: float) -> Callable[..., mp.mpf]:
    def mass(k, v, first, s, tau):
        mu, sigma = (1 - s) / tau, 1 / mp.sqrt(tau)
        low, high = k - mp.mpf(below), k + 1 - mp.mpf(below)
        above = [mp.ncdf((mu - mp.log(x)) / sigma) if x else mp.mpf(1) for x in (low, high)]
        return above[0] - (above[1] if k < v else 0)

    return mass


def _power(below: float) -> Callable[..., mp.mpf]:
    def mass(k, v, first, s):
        low, high = k - mp.mpf(below), k + 1 - mp.mpf(below)
        return mp.power(low, 1 - s) - (mp.power(high, 1 - s) if k < v else 0)

    return mass


MASS: dict[str, Callable[..., mp.mpf]] = {
    "lognormal": lambda k, v, first, s, tau: mp.exp(-s * mp.log(k) - tau / 2 * mp.log(k) ** 2),
    "lognormal_rounded": _lognormal(0.5),
    "lognormal_ceiling": _lognormal(1),
    "power_law": lambda k, v, first, s: mp.power(k, -s),
    "power_law_cutoff": lambda k, v, first, s, rate: mp.power(k, -s) * mp.exp(-rate * k),
    "zipf_mandelbrot": lambda k, v, first, rate, eta: mp.power(1 + eta * (k - first), -rate / eta),
    "geometric": lambda k, v, first, rate: mp.exp(-rate * k),
    "power_law_rounded": _power(0.5),
    "power_law_ceiling": _power(1),
}
PLACES = {
    "s": st.floats(-0.5, 3),
    "tau": st.floats(0.01, 2),
    "rate": st.floats(0.01, 1),
    "eta": st.floats(0.02, 20),
}


def log_likelihood(name: str, counts: RankCounts, first: int) -> Callable[..., mp.mpf]:
    """The log-likelihood per token as a function of the natural parameters."""
    share = [mp.mpf(float(count)) / mp.mpf(float(counts.total)) for count in counts.count]

    def value(*natural: mp.mpf) -> mp.mpf:
        v = counts.vocabulary
        mass = {k: MASS[name](k, v, first, *natural) for k in range(first, v + 1)}
        total = mp.fsum(mass.values())
        bins = zip(counts.low, counts.high, share, strict=True)
        return mp.fsum(
            part * mp.log(mp.fsum(mass[k] for k in range(low, high + 1)) / total) for low, high, part in bins if part
        )

    return value


def derivatives(value: Callable[..., mp.mpf], at: np.ndarray) -> tuple[list[mp.mpf], list[list[mp.mpf]]]:
    """Gradient and Hessian, by differences in so many digits that they are exact in double precision."""
    place, size = [mp.mpf(float(each)) for each in at], len(at)

    def by(*which):
        order = tuple(which.count(i) for i in range(size))
        return mp.diff(value, place, order) if size > 1 else mp.diff(value, place[0], order[0])

    return [by(i) for i in range(size)], [[by(i, j) for j in range(size)] for i in range(size)]


def test_every_family_has_a_member_and_a_definition_here():
    assert set(MEMBERS) == set(FAMILIES)
    assert set(MASS) == {*FAMILIES, "geometric", "power_law_rounded", "power_law_ceiling"}


@pytest.mark.parametrize("name", MASS)
@pytest.mark.parametrize("binned", [False, True])
@given(data=st.data())
def test_gradient_and_hessian_are_mpmaths(name, binned, data):
    # a power of x cannot be normed from 0 on
    v, first = 9, data.draw(st.sampled_from([2] if name == "power_law_ceiling" else [1, 2]))
    names = [each for each in signature(MASS[name]).parameters if each in PLACES]
    natural = np.array([data.draw(PLACES[each]) for each in names])
    if name in ("power_law_rounded", "power_law_ceiling"):
        natural += 2  # its tail has no mass but for s > 1
    if name == "lognormal_rounded":
        natural[0] += 1  # where the mass is among the ranks, not beyond them
    if name == "lognormal_ceiling":
        natural[0] = 1 + (natural[0] - 1) * natural[1]  # |μ| at most 2: where some mass is above rank 1
    ranks = np.arange(first, v + 1)
    count = np.array(data.draw(st.lists(st.integers(1, 50), min_size=len(ranks), max_size=len(ranks))), dtype=float)
    counts = RankCounts(ranks, ranks, count, v)
    if binned:
        counts = in_bins(counts, np.array([first, first + 1, first + 4, v + 1]))
    at = Likelihood(family(name), counts, first)(natural)
    with mp.workdps(30):
        value = log_likelihood(name, counts, first)
        gradient, hessian = derivatives(value, natural)
        expected = value(*map(mp.mpf, map(float, natural)))
    assert at.value == pytest.approx(float(expected), rel=1e-12)
    size = np.sqrt(np.abs([float(hessian[i][i]) for i in range(len(natural))]) + 1e-6)
    np.testing.assert_allclose(at.gradient / size, np.array(gradient, dtype=float) / size, atol=1e-10)
    scale = np.outer(size, size)
    np.testing.assert_allclose(at.hessian / scale, np.array(hessian, dtype=float) / scale, atol=1e-8)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("binned", [False, True])
def test_fits_recover_the_parameters(name, binned):
    true = member(name)
    counts = from_masses(true.masses)
    counts = coarse(counts) if binned else counts
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


def test_the_largest_model_has_its_known_lognormals(largest):
    found = fit(family("lognormal"), largest, first=2).distribution.parameters
    assert largest.vocabulary == 50_688
    assert found["mu"] == pytest.approx(-27.3740731659, rel=1e-11)
    assert found["sigma"] == pytest.approx(7.56853044602, rel=1e-11)
    found = fit(family("lognormal_rounded"), largest, first=2).distribution.parameters
    assert found["mu"] == pytest.approx(-14.3198412836, rel=1e-11)


def test_rounded_up_the_largest_model_has_a_lognormal_with_rank_1(largest):
    found = fit(family("lognormal_ceiling"), largest)
    mu, sigma = found.distribution.values
    assert not found.at_limit

    def loss(free):
        below, above = np.maximum(largest.low - 1, 1e-300), largest.high
        ends = [stats.norm.cdf((np.log(edge) - free[0]) / np.exp(free[1])) for edge in (above, below)]
        ends[0][above == largest.vocabulary] = 1
        return -float(largest.count @ np.log(ends[0] - ends[1])) / largest.total

    best = minimize(loss, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15})
    assert found.per_token == pytest.approx(-best.fun, abs=1e-9)
    assert (mu, np.log(sigma)) == pytest.approx(tuple(best.x), abs=1e-4)
    assert fit(family("lognormal"), largest).at_limit  # the density at whole ranks has none


def test_what_has_no_maximum_or_no_distribution_is_named():
    def once(*low):
        return RankCounts(np.array(low), np.array(low), np.ones(len(low)), V)

    with pytest.raises(FitError, match="at least 2 ranks"):
        fit(family("power_law"), once(1))
    with pytest.raises(FitError, match="at least 3 ranks"):
        fit(family("lognormal"), once(4, 5))
    with pytest.raises(FitError, match="no maximum"):  # the shift runs to −1, and s to 0
        fit(family("zipf_mandelbrot"), from_masses(np.append(300.0, np.ones(V - 1))))
    with pytest.raises(ParameterError, match=r"power_law has no distribution at {'s': nan}"):
        _ = RankDistribution.of(family("power_law"), {"s": np.nan}, V).masses
    with pytest.raises(ParameterError, match="lognormal"):
        family("lognorml")
    with pytest.raises(ParameterError, match="sigma"):
        RankDistribution.of(family("lognormal"), {"mu": 1}, V)


@pytest.mark.parametrize(
    ("low", "high", "count"),
    [
        ([0, 2], [1, 3], [1, 1]),
        ([1, 4], [2, 3], [1, 1]),
        ([1, 2], [2, 3], [1, 1]),
        ([1, 9], [8, V + 1], [1, 1]),
        ([1, 2], [1, 2], [1, -1]),
        ([1, 2], [1, 2], [0, 0]),
        ([1, 2], [1], [1, 1]),
        ([1, 2], [1, 2], [1]),
        ([], [], []),
    ],
)
def test_bins_that_are_none_are_refused(low, high, count):
    with pytest.raises(DataError, match="bins"):
        RankCounts(np.array(low), np.array(high), np.array(count, dtype=float), V)


def test_ranks_that_are_none_are_refused():
    with pytest.raises(DataError, match="whole"):
        RankCounts.of_ranks([1.5, 2.0], V)
    for outside in (0, 401):
        with pytest.raises(DataError, match="within 1 … 400"):
            RankCounts.of_ranks([outside, 7], V)
    with pytest.raises(DataError, match="at least one"):
        RankCounts.of_ranks([1, 2], V).since(3)
