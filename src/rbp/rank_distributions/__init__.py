"""Distributions of ranks on 1 … V, one interface for all: pmf, cdf, sampling, and fits by maximum likelihood.

`families` holds the distributions, `RankDistribution` one of them with its parameters, `RankCounts` the data (single
ranks or bins), `fit` the maximum-likelihood fit, which says where a family has no maximum but a limit, `covariance`
how exact its parameters are. `points` is where continuous laws become laws of ranks.
"""

from rbp.rank_distributions.counts import RankCounts
from rbp.rank_distributions.distribution import RankDistribution
from rbp.rank_distributions.families import FAMILIES, Family, family
from rbp.rank_distributions.fitting import MARGIN, RankFit, covariance, fit, log_likelihood

__all__ = [
    "FAMILIES",
    "MARGIN",
    "Family",
    "RankCounts",
    "RankDistribution",
    "RankFit",
    "covariance",
    "family",
    "fit",
    "log_likelihood",
]
