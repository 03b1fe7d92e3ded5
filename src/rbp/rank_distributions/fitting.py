"""Maximum likelihood for any family, from single ranks or from bins."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from rbp.errors import FitError
from rbp.rank_distributions.counts import RankCounts
from rbp.rank_distributions.distribution import RankDistribution
from rbp.rank_distributions.families import Family, Reals, log_sum

_WIDE = 40.0  # free parameters are slopes and logarithms: beyond this they have run away
_FLAT = 1e-4  # 1/σ² below which a lognormal is as good as a power law, over any vocabulary
_FLATTEST = 1e-9  # smaller ones are not told apart


@dataclass(frozen=True)
class RankFit:
    """A fitted distribution.

    log_likelihood: of the counts, in all; total: of tokens; at_limit: the parameters have run to the edge of the family
    (a lognormal with σ → ∞, say), so that no maximum exists within it.
    """

    distribution: RankDistribution
    log_likelihood: float
    total: float
    at_limit: bool

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


def fit(
    family: Family,
    counts: RankCounts,
    *,
    first: int = 1,
    start: npt.ArrayLike | None = None,
) -> RankFit:
    """The family's most likely member for the counts of ranks first … V (those below `first` are left out).

    start: parameters to begin with (as the family names them). Raises FitError where no finite likelihood is found,
    DataError where no rank is left.
    """
    own = counts.since(first)
    ranks = np.arange(first, own.vocabulary + 1, dtype=np.float64)
    share = own.count / own.total

    def held(free: Reals) -> Reals:
        """Keep a lognormal that turns into a power law from running on for ever."""
        if "sigma" not in family.parameters:
            return free
        return np.append(free[:-1], max(free[-1], np.log(_FLATTEST)))

    def loss(free: Reals) -> float:
        if not np.isfinite(free).all() or np.abs(free).max() > _WIDE:
            return 1e6
        free = held(free)
        with np.errstate(all="ignore"):
            weight = family.log_weight(ranks, family.named(free))
            mass = own.sums(np.exp(weight - log_sum(weight)), first)
        value = -_weighted_log(share, mass)
        return value if np.isfinite(value) else 1e6

    begin = family.start(own.mean_log) if start is None else family.free(np.asarray(start, dtype=np.float64))
    best = minimize(loss, begin, method="BFGS", options={"gtol": 1e-6, "maxiter": 300})
    if not best.success:
        # BFGS stops early where differences of the loss drown in rounding; the simplex does not care
        options = {"xatol": 1e-7, "fatol": 1e-13, "maxiter": 400, "initial_simplex": _simplex(best.x)}
        best = minimize(loss, best.x, method="Nelder-Mead", options=options)
    if best.fun >= 1e6:
        raise FitError(f"{family.name} finds no parameters for the ranks", "fit", "Give a start.")
    named = tuple(float(value) for value in family.named(held(best.x)))
    return RankFit(
        distribution=RankDistribution(family, named, own.vocabulary, first),
        log_likelihood=-float(best.fun) * own.total,
        total=own.total,
        at_limit=_at_limit(family, held(best.x)),
    )


def _at_limit(family: Family, free: Reals) -> bool:
    if "sigma" in family.parameters:
        return bool(np.exp(free[-1]) < _FLAT)
    return bool(np.abs(free).max() > 0.5 * _WIDE)


def _simplex(centre: Reals) -> Reals:
    steps = np.vstack([np.zeros(len(centre)), np.diag(np.full(len(centre), 1e-3))])
    return np.asarray(centre + steps, dtype=np.float64)


def _weighted_log(weight: Reals, mass: Reals) -> float:
    some = weight > 0
    with np.errstate(divide="ignore"):
        return float(weight[some] @ np.log(mass[some]))


def covariance(fitted: RankFit, counts: RankCounts) -> Reals:
    """Covariance of the named parameters, from the curvature of the log-likelihood, with tokens as independent draws.

    The curvature is taken in the free parameters and carried over by the delta method. Raises FitError where the
    maximum is at a limit, or flat.
    """
    family, first = fitted.distribution.family, fitted.distribution.first
    own = counts.since(first)
    centre = family.free(np.asarray(fitted.distribution.values))

    def loss(free: Reals) -> float:
        named = tuple(family.named(free))
        return -log_likelihood(RankDistribution(family, named, own.vocabulary, first), own)

    step = 2e-4 * np.maximum(1, np.abs(centre))
    size = len(centre)
    hessian = np.empty((size, size))
    at = np.eye(size) * step
    for i in range(size):
        for j in range(size):
            ends = [loss(centre + a * at[i] + b * at[j]) * a * b for a in (1, -1) for b in (1, -1)]
            hessian[i, j] = sum(ends) / (4 * step[i] * step[j])
    jacobian = np.column_stack(
        [(family.named(centre + at[i]) - family.named(centre - at[i])) / (2 * step[i]) for i in range(size)]
    )
    if fitted.at_limit or not (np.linalg.eigvalsh((hessian + hessian.T) / 2) > 0).all():
        raise FitError(f"the likelihood of {family.name} has no curved maximum here", "covariance", None)
    return np.asarray(jacobian @ np.linalg.inv(hessian) @ jacobian.T, dtype=np.float64)
