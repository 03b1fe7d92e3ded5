"""A rank distribution: a family with parameters, on the ranks first … V."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rbp.errors import ParameterError
from rbp.rank_distributions.families import Family
from rbp.rank_distributions.points import Reals


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
