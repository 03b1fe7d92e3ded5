"""Rank distributions with parameters, and maximum likelihood for any family.

Per token, the log-likelihood is Σ_b share_b (ln Σ_{k in b} e^w(k) − ln Σ_k e^w(k)), with w the family's weight. So its
gradient is the mean of ∂w within the bins less that over all ranks, and its Hessian the same with ∂²w and covariances
of ∂w. First the family's limit is fitted; where the score there points outward, the limit is the maximum. Else
Newton's method finds it inside.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from companion.stats.rank_families import Family
from companion.stats.rank_points import by_rank, log_sums
from rbp.arrays import Reals
from rbp.errors import FitError, ParameterError
from rbp.laws.newton import minimum
from rbp.measurements.rank_counts import RankCounts


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
        """Make a distribution from named parameters. Raises ParameterError for names of another family."""
        if set(parameters) != set(family.parameters):
            fault = f"{family.name} has the parameters {', '.join(family.parameters)}, not {', '.join(parameters)}"
            raise ParameterError(fault, "parameters", None)
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
        """Compute ln P(R = rank); −∞ where the rank is not among first … V."""
        index, inside = self._index(rank)
        return np.where(inside, self.log_masses[np.where(inside, index, 0)], -np.inf)

    def pmf(self, rank: npt.ArrayLike) -> Reals:
        """Compute P(R = rank)."""
        return np.asarray(np.exp(self.logpmf(rank)), dtype=np.float64)

    def cdf(self, rank: npt.ArrayLike) -> Reals:
        """Compute P(R ≤ rank): RBP at k = rank, if first is 1."""
        index = np.floor(np.asarray(rank, dtype=np.float64)) - self.first + 1
        cumulative = np.append(0.0, np.minimum(np.cumsum(self.masses), 1.0))
        return np.asarray(cumulative[np.clip(index, 0, len(self.ranks)).astype(int)], dtype=np.float64)

    def sf(self, rank: npt.ArrayLike) -> Reals:
        """Compute P(R > rank), exact in the tail."""
        tail = np.append(np.cumsum(self.masses[::-1])[::-1], 0.0)
        index = np.floor(np.asarray(rank, dtype=np.float64)) - self.first + 1
        return np.asarray(tail[np.clip(index, 0, len(self.ranks)).astype(int)], dtype=np.float64)

    @property
    def entropy(self) -> float:
        """−Σ p ln p, in nats: what appendix C calls the cross-entropy."""
        p = self.masses
        return float(-(p[p > 0] * self.log_masses[p > 0]).sum())

    def _index(self, rank: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        ranks = np.asarray(rank, dtype=np.float64)
        inside = (ranks == np.floor(ranks)) & (ranks >= self.first) & (ranks <= self.vocabulary)
        return np.where(inside, ranks - self.first, 0).astype(np.int64), inside


MARGIN = 1e-9
"""Nats per token within which likelihoods are not told apart: far above their rounding, far below what counts tell."""


@dataclass(frozen=True)
class RankFit:
    """A fitted distribution.

    family: as requested; distribution: its most likely member, which belongs to another family, the limit, where
    the family has no maximum within; log_likelihood: of the counts, in all; total: of tokens.
    """

    family: Family
    distribution: RankDistribution
    log_likelihood: float
    total: float

    @property
    def at_limit(self) -> bool:
        """Whether the maximum is at the family's edge, so that `distribution` is the limit (σ → ∞: a power law)."""
        return self.distribution.family is not self.family

    @property
    def per_token(self) -> float:
        """Log-likelihood per token, in nats."""
        return self.log_likelihood / self.total


def fit(family: Family, counts: RankCounts, *, first: int = 1) -> RankFit:
    """Fit the family's most likely member to the counts of ranks first … V, without those below `first`.

    Raises FitError where there is neither a maximum nor a limit, DataError where no rank is left.
    """
    ranked = counts.since(first)
    likelihood, natural = _maximum(family, ranked, first)
    fitted_family = likelihood.family
    named = tuple(float(value) for value in fitted_family.named(natural, first))
    distribution = RankDistribution(fitted_family, named, ranked.vocabulary, first)
    return RankFit(family, distribution, likelihood(natural).value * ranked.total, ranked.total)


@dataclass(frozen=True)
class Value:
    """A log-likelihood per token, −∞ where there is no distribution, its gradient (p,) and Hessian (p, p)."""

    value: float
    gradient: Reals
    hessian: Reals


class Likelihood:
    """The log-likelihood per token of counts (ranks first … V) as a function of a family's natural parameters."""

    def __init__(self, family: Family, counts: RankCounts, first: int) -> None:
        self.family, self.first = family, first
        occupied = counts.count > 0
        low, high = counts.low[occupied], counts.high[occupied]
        if (low == high).all():
            self.points, place = by_rank(family.points, first, counts.vocabulary), low - first
        else:  # the bins, and what lies between them
            starts = np.sort(np.concatenate([[first], low, high + 1]))
            starts = starts[np.append(True, np.diff(starts) > 0) & (starts <= counts.vocabulary)]
            self.points, place = family.points(starts, counts.vocabulary), np.searchsorted(starts, low)
        self.lengths = np.diff(np.append(self.points.begin, len(self.points.at)))
        self.share = np.zeros(len(self.points.begin))  # of the tokens
        self.share[place] = counts.count[occupied] / counts.total

    def __call__(self, natural: Reals) -> Value:
        """Compute the log-likelihood at these natural parameters."""
        with np.errstate(all="ignore"):
            weight = self.family.weight(self.points, natural) + self.points.log_measure
            slopes, curves = self.family.slopes(self.points, natural)
            total = log_sums(weight, [0])
            mass = np.exp(weight - total)
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
            occupied = self.share > 0
            value = float(self.share[occupied] @ (sums[occupied] - total))
            gradient = slopes @ (share - mass)
        finite = np.isfinite(value) and np.isfinite(gradient).all() and np.isfinite(hessian).all()
        return Value(value if finite else -np.inf, gradient, hessian)


def _maximum(family: Family, counts: RankCounts, first: int) -> tuple[Likelihood, Reals]:
    """Find the likelihood of the family or of its limit, and its maximum in their own natural parameters."""
    needed = len(family.parameters) + 1
    if np.count_nonzero(counts.count) < needed:
        fault = f"{family.name} needs tokens in at least {needed} ranks or bins"
        raise FitError(fault, "fit", "Take more tokens, or finer bins.")
    likelihood, begin = Likelihood(family, counts, first), np.array(family.origin)
    if family.limit and first >= family.limit_since:
        limit, natural = _maximum(family.limit, counts, first)
        edge = np.append(natural, 0.0)
        at_edge = likelihood(edge)
        # in units of the curvature, half the square of the score is what a step inward gains
        if at_edge.gradient[-1] <= MARGIN * np.sqrt(np.abs(at_edge.hessian[-1, -1])):
            return limit, natural
        begin = max(begin, edge, key=lambda natural: likelihood(natural).value)
    return likelihood, _inside(likelihood, begin)


def _inside(likelihood: Likelihood, begin: Reals) -> Reals:
    """Find the maximum inside, from `begin`. Raises FitError where the likelihood has none."""
    family = likelihood.family

    def loss(natural: Reals) -> tuple[float, Reals, Reals]:
        value = likelihood(natural)
        return -value.value, -value.gradient, -value.hessian

    try:
        return minimum(loss, begin, family.positive)
    except FitError:
        remedy = "Take another family, or more ranks."
        raise FitError(f"{family.name} has no maximum for these ranks", "fit", remedy) from None
