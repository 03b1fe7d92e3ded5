"""A family of rank distributions with its parameters, and maximum likelihood for any family.

Per token, the log-likelihood is Σ_b share_b (ln Σ_{k in b} e^w(k) − ln Σ_k e^w(k)), with w the family's weight. So its
gradient is the mean of ∂w within the bins less that over all ranks, and its Hessian the same with ∂²w and covariances
of ∂w. First the family's limits are fitted; where the score there points outward, the limit is the maximum. Else
Newton's method finds it inside.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rbp.core.arrays import Reals
from rbp.core.errors import FitError, ParameterError
from rbp.stats.newton import minimum
from rbp.stats.rank_counts import RankCounts, by_rank, log_sums
from rbp.stats.rank_families import Family, MassAt1, with_mass_at_1


@dataclass(frozen=True)
class RankDistribution:
    """A family with parameter values, normalized over the ranks first … vocabulary.

    Raises ParameterError for values that give no distribution, on first use.
    """

    family: Family
    values: tuple[float, ...]
    vocabulary: int
    first: int = 1

    @classmethod
    def of(cls, family: Family, parameters: Mapping[str, float], vocabulary: int, first: int = 1) -> "RankDistribution":
        """From named parameters. Raises ParameterError where they are not those of the family."""
        if set(parameters) != set(family.parameters):
            what = f"{family.name} has the parameters {', '.join(family.parameters)}, not {', '.join(parameters)}"
            raise ParameterError(what, "parameters", None)
        return cls(family, tuple(parameters[name] for name in family.parameters), vocabulary, first)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters by name."""
        return dict(zip(self.family.parameters, self.values, strict=True))

    @cached_property
    def ranks(self) -> Reals:
        """first … V."""
        return np.arange(self.first, self.vocabulary + 1, dtype=np.float64)

    @cached_property
    def log_masses(self) -> Reals:
        """ln P(R = k) of every rank first … V."""
        values = np.asarray(self.values, dtype=np.float64)
        with np.errstate(all="ignore"):
            logs = self.family.log_masses(values, self.first, self.vocabulary)
        if np.isnan(logs).any():
            raise ParameterError(f"{self.family.name} has no distribution at {self.parameters}", "parameters", None)
        return logs

    @cached_property
    def masses(self) -> Reals:
        """P(R = k) of every rank first … V."""
        return np.asarray(np.exp(self.log_masses), dtype=np.float64)

    def logpmf(self, rank: npt.ArrayLike) -> Reals:
        """ln P(R = rank); −∞ where the rank is not among first … V."""
        index, inside = self._index(rank)
        return np.where(inside, self.log_masses[np.where(inside, index, 0)], -np.inf)

    def pmf(self, rank: npt.ArrayLike) -> Reals:
        """P(R = rank)."""
        return np.asarray(np.exp(self.logpmf(rank)), dtype=np.float64)

    def cdf(self, rank: npt.ArrayLike) -> Reals:
        """P(R ≤ rank): RBP at k = rank, if first is 1."""
        at = np.floor(np.asarray(rank, dtype=np.float64)) - self.first + 1
        cumulative = np.append(0.0, self._cumulative)
        return np.asarray(cumulative[np.clip(at, 0, len(self.ranks)).astype(int)], dtype=np.float64)

    def sf(self, rank: npt.ArrayLike) -> Reals:
        """P(R > rank), exact in the tail."""
        tail = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0)
        at = np.floor(np.asarray(rank, dtype=np.float64)) - self.first + 1
        return np.asarray(tail[np.clip(at, 0, len(self.ranks)).astype(int)], dtype=np.float64)

    def quantile(self, share: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The smallest rank with P(R ≤ rank) ≥ share."""
        at = np.searchsorted(self._cumulative, np.asarray(share, dtype=np.float64) * (1 - 1e-15), side="left")
        return (np.minimum(at, len(self.ranks) - 1) + self.first).astype(np.int64)

    def sample(self, size: int, seed: int | np.random.Generator) -> npt.NDArray[np.int64]:
        """`size` ranks drawn independently."""
        return self.quantile(np.random.default_rng(seed).random(size))

    @property
    def entropy(self) -> float:
        """−Σ p ln p, in nats: what appendix C calls the cross-entropy."""
        p = self.masses
        return float(-(p[p > 0] * self.log_masses[p > 0]).sum())

    @cached_property
    def _cumulative(self) -> Reals:
        total = np.cumsum(self.masses)
        return np.asarray(np.minimum(total / total[-1], 1.0), dtype=np.float64)

    def _index(self, rank: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        at = np.asarray(rank, dtype=np.float64)
        inside = (at == np.floor(at)) & (at >= self.first) & (at <= self.vocabulary)
        return np.where(inside, at - self.first, 0).astype(np.int64), inside


MARGIN = 1e-9
"""Nats per token within which likelihoods are not told apart: far above their rounding, far below what counts tell."""

_ROUNDING = 16 * np.finfo(float).eps  # of a mean over ranks, relative


@dataclass(frozen=True)
class RankFit:
    """A fitted distribution.

    family: the one asked for; distribution: its most likely member, which is one of another family, the limit, where
    the family has no maximum within; log_likelihood: of the counts, in all; total: of tokens; rounding: how far
    rounding may have moved any parameter, relative to it, from the likelihood's curvature (its condition number).
    """

    family: Family
    distribution: RankDistribution
    log_likelihood: float
    total: float
    rounding: float

    @property
    def at_limit(self) -> bool:
        """Whether the maximum is at the family's edge, so that `distribution` is the limit (σ → ∞: a power law)."""
        return self.distribution.family is not self.family

    @property
    def per_token(self) -> float:
        """Log-likelihood per token, in nats."""
        return self.log_likelihood / self.total

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2 * len(self.distribution.values) - 2 * self.log_likelihood


def log_likelihood(distribution: RankDistribution, counts: RankCounts) -> float:
    """ln of the probability of the counts, less what does not depend on the distribution (multinomial)."""
    mass = counts.sums(distribution.masses, distribution.first)
    return _weighted_log(counts.count, mass)


def fit(family: Family, counts: RankCounts, *, first: int = 1, start: Mapping[str, float] | None = None) -> RankFit:
    """The family's most likely member for the counts of ranks first … V (those below `first` are left out).

    start: parameters to begin with, which saves time where they are near. Raises FitError where there is neither a
    maximum nor a limit, DataError where no rank is left, ParameterError where `start` names other parameters.
    """
    own = counts.since(first)
    if isinstance(family, MassAt1):
        return _fit_mixture(family, own, first, start)
    begin = None
    if start is not None:
        begin = family.natural(np.array(RankDistribution.of(family, start, own.vocabulary, first).values), first)
    likelihood, natural, _ = _maximum(family, own, first, begin)
    found, at = likelihood.family, likelihood(natural)
    with np.errstate(all="ignore"):
        named = tuple(float(value) for value in found.named(natural, first))
        rounding = _rounding(found, natural, first, at)
        back = found.natural(np.array(named), first)
    if not np.isfinite(back).all():  # Weibull's scale is no number above 0 where the shape is below 0.006
        raise FitError(f"{found.name} has parameters there beyond what a number holds", "fit", "Take another family.")
    return RankFit(
        family=family,
        distribution=RankDistribution(found, named, own.vocabulary, first),
        log_likelihood=at.value * own.total,
        total=own.total,
        rounding=rounding,
    )


def covariance(fitted: RankFit, counts: RankCounts) -> Reals:
    """Covariance of the named parameters, from the curvature of the log-likelihood, with tokens as independent draws.

    The curvature is that in the natural parameters, carried over by the delta method. Raises FitError where the
    maximum is at a limit.
    """
    family, first = fitted.family, fitted.distribution.first
    if fitted.at_limit:
        what = f"{family.name} is at its limit, {fitted.distribution.family.name}, and has no curved maximum"
        raise FitError(what, "covariance", None)
    values = np.asarray(fitted.distribution.values)
    if isinstance(family, MassAt1):
        tail = RankDistribution(family.tail, fitted.distribution.values[1:], counts.vocabulary, 2)
        own = RankFit(family.tail, tail, np.nan, np.nan, np.nan)
        out = np.zeros((len(values), len(values)))
        out[0, 0] = values[0] * (1 - values[0]) / counts.total
        out[1:, 1:] = covariance(own, counts)
        return out
    own_counts = counts.since(first)
    natural = family.natural(values, first)
    jacobian, hessian = _jacobian(family, natural, first), Likelihood(family, own_counts, first)(natural).hessian
    return np.asarray(jacobian @ np.linalg.inv(-hessian) @ jacobian.T / own_counts.total)


@dataclass(frozen=True)
class Value:
    """A log-likelihood per token, its gradient (p,) and Hessian (p, p), and what rounding may do to the gradient (p,).

    The value is −∞ where there is no distribution.
    """

    value: float
    gradient: Reals
    hessian: Reals
    noise: Reals


class Likelihood:
    """The log-likelihood per token of counts (ranks first … V) as a function of a family's natural parameters."""

    def __init__(self, family: Family, counts: RankCounts, first: int) -> None:
        self.family, self.first = family, first
        some = counts.count > 0
        low, high = counts.low[some], counts.high[some]
        if (low == high).all():
            self.points, place = by_rank(family.points, first, counts.vocabulary), low - first
        else:  # the bins, and what lies between them
            starts = np.sort(np.concatenate([[first], low, high + 1]))
            starts = starts[np.append(True, np.diff(starts) > 0) & (starts <= counts.vocabulary)]
            self.points, place = family.points(starts, counts.vocabulary), np.searchsorted(starts, low)
        self.lengths = np.diff(np.append(self.points.begin, len(self.points.at)))
        self.share = np.zeros(len(self.points.begin))  # of the tokens
        self.share[place] = counts.count[some] / counts.total

    def __call__(self, natural: Reals) -> Value:
        """At these natural parameters."""
        with np.errstate(all="ignore"):
            weight = self.family.weight(self.points, natural) + self.points.log_measure
            slopes, curves = self.family.slopes(self.points, natural)
            whole = log_sums(weight, [0])
            mass = np.exp(weight - whole)
            slopes = slopes - (slopes @ mass)[:, None]  # moments about the mean lose fewer digits
            hessian = -(slopes * mass) @ slopes.T
            if len(weight) == len(self.share):
                sums, share = weight, self.share
            else:
                begin, lengths = self.points.begin, self.lengths
                sums = log_sums(weight, begin)
                within = np.exp(weight - np.repeat(sums, lengths))
                apart = slopes - np.repeat(np.add.reduceat(within * slopes, begin, axis=1), lengths, axis=1)
                share = within * np.repeat(self.share, lengths)
                hessian += (apart * share) @ apart.T
            if curves is not None:
                hessian += curves @ (share - mass)
            some = self.share > 0
            value = float(self.share[some] @ (sums[some] - whole))
            gradient, noise = slopes @ (share - mass), _ROUNDING * (np.abs(slopes) @ (share + mass))
        finite = np.isfinite(value) and np.isfinite(gradient).all() and np.isfinite(hessian).all()
        return Value(value if finite else -np.inf, gradient, hessian, noise)


def _maximum(
    family: Family, counts: RankCounts, first: int, begin: Reals | None = None
) -> tuple[Likelihood, Reals, Reals]:
    """Where the likelihood is largest.

    The likelihood of the family or of its limit, the maximum in its own natural parameters, and in those of `family`.
    """
    needed = len(family.parameters) + 1
    if np.count_nonzero(counts.count) < needed:
        what = f"{family.name} needs tokens in at least {needed} ranks or bins"
        raise FitError(what, "fit", "Take more tokens, or finer bins.")
    likelihood = Likelihood(family, counts, first)
    if begin is not None:
        with suppress(FitError):  # a maximum inside is the maximum; where none is found from here, the limits tell
            natural = _inside(likelihood, begin)
            return likelihood, natural, natural
    tried = [np.array(family.origin)]
    for limit in family.limits:
        if first < limit.least_first:
            continue
        found, natural, whole = _maximum(limit.family, counts, first)
        there = limit.embed(whole)
        edge = [place for place in family.positive if there[place] == 0]
        at = likelihood(there)
        # in units of the curvature, half the square of the score is what a step inward gains
        if (at.gradient[edge] <= MARGIN * np.sqrt(np.abs(np.diag(at.hessian)[edge]))).all():
            return found, natural, there
        tried.append(there)
    begin = tried[0] if len(tried) == 1 else max(tried, key=lambda natural: likelihood(natural).value)
    natural = _inside(likelihood, begin)
    return likelihood, natural, natural


def _inside(likelihood: Likelihood, begin: Reals) -> Reals:
    """The maximum inside, from `begin`. Raises FitError where the likelihood has none."""
    family = likelihood.family

    def loss(natural: Reals) -> tuple[float, Reals, Reals]:
        at = likelihood(natural)
        return -at.value, -at.gradient, -at.hessian

    try:
        return minimum(loss, begin, family.positive)
    except FitError:
        remedy = "Take another family, or more ranks."
        raise FitError(f"{family.name} has no maximum for these ranks", "fit", remedy) from None


def _jacobian(family: Family, natural: Reals, first: int) -> Reals:
    """∂ named/∂ natural, exact: a complex step, so small that its square is nothing."""
    tiny = 1e-30
    shifted = natural + 1j * tiny * np.eye(len(natural))
    return np.column_stack([np.imag(family.named(each, first)) / tiny for each in shifted])


def _rounding(family: Family, natural: Reals, first: int, at: Value) -> float:
    if not len(natural):
        return 0.0
    moved = np.abs(_jacobian(family, natural, first) @ np.linalg.inv(at.hessian)) @ at.noise
    return float((moved / np.abs(family.named(natural, first))).max())


def _fit_mixture(family: MassAt1, counts: RankCounts, first: int, start: Mapping[str, float] | None) -> RankFit:
    """Share and tail separate: the share is that of the tokens, the tail a fit from rank 2."""
    at_1 = (counts.low == 1) & (counts.high == 1)
    if first != 1 or not at_1.any():
        raise FitError(f"{family.name} needs rank 1 as a bin of its own", "fit", "Fit from rank 1.")
    begin = None if start is None else {name: start[name] for name in family.tail.parameters}
    rest = fit(family.tail, counts, first=2, start=begin)
    share = float(counts.count[at_1][0] / counts.total)
    if not share:
        raise FitError(f"{family.name} needs tokens of rank 1", "fit", f"Take {family.tail.name}.")
    found = family if not rest.at_limit else with_mass_at_1(rest.distribution.family)
    here = counts.total * (share * np.log(share) + (1 - share) * np.log1p(-share))
    return RankFit(
        family=family,
        distribution=RankDistribution(found, (share, *rest.distribution.values), counts.vocabulary, 1),
        log_likelihood=float(here) + rest.log_likelihood,
        total=counts.total,
        rounding=rest.rounding,
    )


def _weighted_log(weight: Reals, mass: Reals) -> float:
    some = weight > 0
    with np.errstate(divide="ignore"):
        return float(weight[some] @ np.log(mass[some]))
