"""Fits against what made the data, against mpmath, and at the edges of the families."""

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm
from simulated import MEMBERS, drawn, in_bins

from companion.stats.rank_families import FAMILIES, family
from companion.stats.rank_fits import Likelihood, RankDistribution, fit
from rbp.errors import FitError
from rbp.measurements import open_source
from rbp.measurements.rank_counts import RankCounts

V = 400
LIMITS = ["geometric", "power_law_rounded", "power_law_ceiling"]


def member(name: str, vocabulary: int = V) -> RankDistribution:
    return RankDistribution.of(family(name), MEMBERS[name], vocabulary)


def exact(it: RankDistribution) -> RankCounts:
    """Shares in place of draws: the likelihood's maximum is then at the truth itself."""
    return from_masses(it.masses, it.first, it.vocabulary)


def from_masses(masses: np.ndarray, first: int, vocabulary: int) -> RankCounts:
    ranks = np.arange(first, vocabulary + 1)
    return RankCounts(ranks, ranks, masses / masses.sum() * 1e6, vocabulary)


def coarse(counts: RankCounts) -> RankCounts:
    return in_bins(counts, np.unique(np.round(np.geomspace(1, counts.vocabulary + 1, 30))))


@pytest.fixture(scope="module")
def largest() -> RankCounts:
    """Of Pythia-12B on Wikipedia (figure 8c), over V = 50 688."""
    return next(own.counts for own in open_source("published").histograms if own.model.endswith("12b"))


# Definitions for mpmath: the mass of rank k up to a constant, in the natural parameters.


def _quadratic(k: int, s: mp.mpf, tau: mp.mpf) -> mp.mpf:
    return mp.exp(-s * mp.log(k) - tau / 2 * mp.log(k) ** 2)


def _rounded(k: int, v: int, s: mp.mpf, tau: mp.mpf) -> mp.mpf:
    """The lognormal's distribution function, from above so that the tail keeps its digits."""
    half, mu, sigma = mp.mpf(1) / 2, (1 - s) / tau, 1 / mp.sqrt(tau)
    above = lambda x: mp.ncdf((mu - mp.log(x)) / sigma)  # noqa: E731
    return above(k - half) - (above(k + half) if k < v else 0)


def _ceiling(k: int, v: int, s: mp.mpf, tau: mp.mpf) -> mp.mpf:
    mu, sigma = (1 - s) / tau, 1 / mp.sqrt(tau)
    above = lambda x: mp.ncdf((mu - mp.log(x)) / sigma) if x else mp.mpf(1)  # noqa: E731
    return above(k - 1) - (above(k) if k < v else 0)


def _ceiling_power(k: int, v: int, s: mp.mpf) -> mp.mpf:
    return mp.power(k - 1, 1 - s) - (mp.power(k, 1 - s) if k < v else 0)


def _rounded_power(k: int, v: int, s: mp.mpf) -> mp.mpf:
    half = mp.mpf(1) / 2
    return mp.power(k - half, 1 - s) - (mp.power(k + half, 1 - s) if k < v else 0)


MASS: dict[str, Callable[..., mp.mpf]] = {
    "lognormal": lambda k, v, first, s, tau: _quadratic(k, s, tau),
    "lognormal_rounded": lambda k, v, first, s, tau: _rounded(k, v, s, tau),
    "lognormal_ceiling": lambda k, v, first, s, tau: _ceiling(k, v, s, tau),
    "power_law": lambda k, v, first, s: mp.power(k, -s),
    "power_law_cutoff": lambda k, v, first, s, rate: mp.power(k, -s) * mp.exp(-rate * k),
    "zipf_mandelbrot": lambda k, v, first, rate, eta: mp.power(1 + eta * (k - first), -rate / eta),
    "geometric": lambda k, v, first, rate: mp.exp(-rate * k),
    "power_law_rounded": lambda k, v, first, s: _rounded_power(k, v, s),
    "power_law_ceiling": lambda k, v, first, s: _ceiling_power(k, v, s),
}


def in_40_digits(name: str, counts: RankCounts, first: int) -> Callable[..., mp.mpf]:
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
    order = lambda *which: tuple(which.count(i) for i in range(size))  # noqa: E731
    gradient = [mp.diff(value, place, order(i)) if size > 1 else mp.diff(value, place[0]) for i in range(size)]
    hessian = [
        [mp.diff(value, place, order(i, j)) if size > 1 else mp.diff(value, place[0], 2) for j in range(size)]
        for i in range(size)
    ]
    return gradient, hessian


PLACES = {
    "s": st.floats(-0.5, 3),
    "tau": st.floats(0.01, 2),
    "rate": st.floats(0.01, 1),
    "eta": st.floats(0.02, 20),
}
NATURAL = {
    "lognormal": ("s", "tau"),
    "lognormal_rounded": ("s", "tau"),
    "lognormal_ceiling": ("s", "tau"),
    "power_law": ("s",),
    "power_law_cutoff": ("s", "rate"),
    "zipf_mandelbrot": ("rate", "eta"),
    "geometric": ("rate",),
    "power_law_rounded": ("s",),
    "power_law_ceiling": ("s",),
}


def test_every_family_has_a_definition_here() -> None:
    assert set(MASS) == set(NATURAL) == {*FAMILIES, *LIMITS}


@pytest.mark.parametrize("name", NATURAL)
@pytest.mark.parametrize("binned", [False, True])
@given(data=st.data())
def test_gradient_and_hessian_are_mpmaths(name: str, binned: bool, data: st.DataObject) -> None:
    # a power of x cannot be normed from 0 on
    v, first = 9, data.draw(st.sampled_from([2] if name == "power_law_ceiling" else [1, 2]))
    natural = np.array([data.draw(PLACES[each]) for each in NATURAL[name]])
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
        value = in_40_digits(name, counts, first)
        gradient, hessian = derivatives(value, natural)
        expected = value(*map(mp.mpf, map(float, natural)))
    assert at.value == pytest.approx(float(expected), rel=1e-12)
    size = np.sqrt(np.abs([float(hessian[i][i]) for i in range(len(natural))]) + 1e-6)
    np.testing.assert_allclose(at.gradient / size, [float(each) for each in gradient] / size, atol=1e-10)
    np.testing.assert_allclose(
        at.hessian / np.outer(size, size),
        np.array([[float(each) for each in row] for row in hessian]) / np.outer(size, size),
        atol=1e-8,
    )


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("binned", [False, True])
def test_in_40_digits_the_maximum_is_where_the_fit_says(name: str, binned: bool) -> None:
    true = member(name, vocabulary=40)
    counts = RankCounts.of_ranks(drawn(true, 3000, 7), 40)
    if binned:
        counts = coarse(counts)
    found = fit(true.family, counts)
    assert not found.at_limit
    natural = true.family.natural(np.array(found.distribution.values), 1)
    with mp.workdps(40):
        gradient, hessian = derivatives(in_40_digits(name, counts, 1), natural)
        left = mp.lu_solve(mp.matrix(hessian), mp.matrix(gradient))
    named = np.array([float(each) for each in left])
    moved = np.abs(true.family.named(natural + named, 1) / true.family.named(natural, 1) - 1).max()
    assert moved < 1e-11


def test_the_largest_model_has_its_known_lognormals(largest: RankCounts) -> None:
    found = fit(family("lognormal"), largest, first=2).distribution.parameters
    assert largest.vocabulary == 50_688
    assert found["mu"] == pytest.approx(-27.3740731659, rel=1e-11)
    assert found["sigma"] == pytest.approx(7.56853044602, rel=1e-11)
    found = fit(family("lognormal_rounded"), largest, first=2).distribution.parameters
    assert found["mu"] == pytest.approx(-14.3198412836, rel=1e-11)
    smaller = RankCounts(largest.low, np.minimum(largest.high, 50_304), largest.count, 50_304)
    assert fit(family("lognormal"), smaller, first=2).distribution.parameters["mu"] == pytest.approx(-27.466, abs=5e-4)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("binned", [False, True])
def test_fits_recover_the_parameters(name: str, binned: bool) -> None:
    true = member(name)
    counts = coarse(exact(true)) if binned else exact(true)
    found = fit(true.family, counts)
    np.testing.assert_allclose(found.distribution.values, true.values, rtol=1e-9)
    by_hand = counts.count @ np.log(counts.sums(true.masses, 1))
    assert found.log_likelihood == pytest.approx(by_hand, rel=1e-13)
    assert not found.at_limit


# What stands at each edge, and in which direction ranks must change to lead inside.
RANKS = np.arange(1.0, V + 1)
EDGES = {
    "lognormal": ("power_law", (1.7,), -(np.log(RANKS) ** 2)),
    "lognormal_rounded": ("power_law_rounded", (1.7,), -(np.log(RANKS) ** 2)),
    "power_law_cutoff": ("power_law", (1.2,), -RANKS / 20),
    "zipf_mandelbrot": ("geometric", (0.02,), (RANKS / 60) ** 2),
}


@pytest.mark.parametrize("name", EDGES)
def test_at_the_edge_the_fit_is_the_limit_and_just_inside_it_is_not(name: str) -> None:
    limit, values, inward = EDGES[name]
    true = RankDistribution(family(limit), values, V)
    for tilt in (-1e-2, -1e-5, 0.0, 1e-5, 1e-2):
        counts = from_masses(true.masses * np.exp(tilt * inward), 1, V)
        found, at_limit = fit(family(name), counts), fit(family(limit), counts)
        assert found.at_limit == (tilt <= 0), tilt
        if not found.at_limit:
            assert found.distribution.family.name == name
            assert found.log_likelihood > at_limit.log_likelihood + 1e-7 * tilt**2
            continue
        assert found.distribution == at_limit.distribution
        assert found.log_likelihood == pytest.approx(at_limit.log_likelihood, rel=1e-14)
        if tilt == 0:
            np.testing.assert_allclose(found.distribution.values, true.values, rtol=1e-10)


def test_rounded_up_the_largest_model_has_a_lognormal_with_rank_1(largest: RankCounts) -> None:
    found = fit(family("lognormal_ceiling"), largest)
    mu, sigma = found.distribution.values
    assert not found.at_limit
    at = np.array([1, 10, 1000])
    np.testing.assert_allclose(found.distribution.cdf(at), norm.cdf((np.log(at) - mu) / sigma), rtol=1e-9)

    def loss(free: np.ndarray) -> float:
        ends = [
            norm.cdf((np.log(edge) - free[0]) / np.exp(free[1]))
            for edge in (largest.high, np.maximum(largest.low - 1, 1e-300))
        ]
        ends[0][largest.high == largest.vocabulary] = 1
        return -float(largest.count @ np.log(ends[0] - ends[1])) / largest.total

    best = minimize(loss, [0.0, 1.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15})
    assert found.per_token == pytest.approx(-best.fun, abs=1e-9)
    assert (mu, np.log(sigma)) == pytest.approx(tuple(best.x), abs=1e-4)
    assert fit(family("lognormal"), largest).at_limit  # the density at whole ranks has none


def test_what_has_no_maximum_is_named() -> None:
    ranks = lambda *low: RankCounts(np.array(low), np.array(low), np.ones(len(low)), V)  # noqa: E731
    with pytest.raises(FitError, match="at least 2 ranks"):
        fit(family("power_law"), ranks(1))
    with pytest.raises(FitError, match="at least 3 ranks"):
        fit(family("lognormal"), ranks(4, 5))
    flat = from_masses(np.append(300.0, np.ones(V - 1)), 1, V)
    with pytest.raises(FitError, match="no maximum"):  # the shift runs to −1, and s to 0
        fit(family("zipf_mandelbrot"), flat)
