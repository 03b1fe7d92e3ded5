"""Distributions of ranks on 1 … V, one interface for all: pmf, cdf, sampling, and fits by maximum likelihood.

`families` holds the distributions, `RankDistribution` one of them with its parameters, `RankCounts` the data (single
ranks or bins), `fit` the maximum-likelihood fit; `goodness` says how far a fit is from the data.
"""

from rbp.rank_distributions.counts import RankCounts
from rbp.rank_distributions.distribution import RankDistribution
from rbp.rank_distributions.families import FAMILIES, Family, family
from rbp.rank_distributions.fitting import RankFit, covariance, fit, log_likelihood

__all__ = [
    "FAMILIES",
    "Family",
    "RankCounts",
    "RankDistribution",
    "RankFit",
    "covariance",
    "family",
    "fit",
    "log_likelihood",
]
