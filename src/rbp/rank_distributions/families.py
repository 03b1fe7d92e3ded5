"""The families of rank distributions, each by its logarithmic weight over the ranks; normalizing is common to all.

Every family lives on the ranks first … V of a finite vocabulary. `free` and `named` lead from the parameters as one
reads them to numbers without limits, in which they are fitted, and back.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, gammaln, log_ndtr, logit

from rbp.errors import ParameterError

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Family:
    """A family of distributions of ranks.

    name: its key; label: as a figure shows it; parameters: their names; log_weight(ranks, values): ln of the mass up to
    a constant, for all ranks in play, ascending; free(values) and named(free): between parameters and unlimited
    numbers; start(mean_log): free parameters to begin a fit with, from the mean of ln R. The order is that of
    `parameters` throughout.
    """

    name: str
    label: str
    parameters: tuple[str, ...]
    log_weight: Callable[[Reals, Reals], Reals]
    free: Callable[[Reals], Reals]
    named: Callable[[Reals], Reals]
    start: Callable[[float], Reals]


def log_sum(weight: Reals) -> float:
    """ln Σ exp(weight), shape (m,): SciPy's `logsumexp` without its generality, which takes several times as long.

    Not finite where the sum is not.
    """
    top = int(weight.argmax())
    share = np.exp(weight - weight[top])
    share[top] = 0.0
    return float(np.log1p(share.sum()) + weight[top])


def _same(values: Reals) -> Reals:
    return values


def _lognormal_free(values: Reals) -> Reals:
    mu, sigma = values
    return np.array([1 - mu / sigma**2, -2 * np.log(sigma)])


def _lognormal_named(free: Reals) -> Reals:
    sigma = np.exp(-free[1] / 2)
    return np.array([(1 - free[0]) * sigma**2, sigma])


def _lognormal_weight(ranks: Reals, values: Reals) -> Reals:
    # ψ of equation 10 over ψ(1): with s = 1 − μ/σ² nothing cancels, however large |μ| and σ are
    log, (mu, sigma) = np.log(ranks), values
    return np.asarray(-(1 - mu / sigma**2) * log - log**2 / (2 * sigma**2), dtype=np.float64)


def _rounded_weight(ranks: Reals, values: Reals) -> Reals:
    mu, sigma = values
    edges = (np.log(np.append(ranks - 0.5, ranks[-1] + 0.5)) - mu) / sigma
    above = log_ndtr(-edges)  # ln of the mass above each edge
    mass = above[:-1] + np.log1p(-np.exp(np.minimum(above[1:] - above[:-1], -1e-300)))
    mass[-1] = above[-2]  # the library's distribution has no end: what lies beyond V counts as V
    return np.asarray(mass, dtype=np.float64)


def _weibull_weight(ranks: Reals, values: Reals) -> Reals:
    scale, shape = values
    below, up_to = ((ranks - 1) / scale) ** shape, (ranks / scale) ** shape
    return np.asarray(-below + np.log(-np.expm1(np.minimum(below - up_to, -1e-300))), dtype=np.float64)


def _negative_binomial_weight(ranks: Reals, values: Reals) -> Reals:
    size, mean = values
    failures = ranks - 1
    weight = gammaln(failures + size) - gammaln(ranks) + failures * np.log(mean / (mean + size))
    return np.asarray(weight, dtype=np.float64)


def with_mass_at_1(base: Family) -> Family:
    """A mixture of a point mass at rank 1 and `base`: rank 1 has a share of its own, the other ranks follow `base`.

    As the share at 1 is free, how much of it `base` would give cannot be told, and is left out: parameter `share_1`
    is all of P(R = 1), and may be less than what `base` alone has.
    """

    def log_weight(ranks: Reals, values: Reals) -> Reals:
        weight = base.log_weight(ranks, values[1:])
        if ranks[0] != 1:
            return weight
        tail = weight[1:] - log_sum(weight[1:])
        return np.concatenate([[np.log(values[0])], np.log1p(-values[0]) + tail])

    return Family(
        name=f"mass_at_1_{base.name}",
        label=f"point mass at 1 + {base.label}",
        parameters=("share_1", *base.parameters),
        log_weight=log_weight,
        free=lambda values: np.append(logit(values[0]), base.free(values[1:])),
        named=lambda free: np.append(expit(free[0]), base.named(free[1:])),
        start=lambda mean_log: np.append(0.0, base.start(mean_log)),
    )


LOGNORMAL = Family(
    name="lognormal",
    label="lognormal",
    parameters=("mu", "sigma"),
    log_weight=_lognormal_weight,
    free=_lognormal_free,  # (s, ln 1/σ²), in which the likelihood is well shaped even where μ and σ run away
    named=_lognormal_named,
    start=lambda mean_log: np.array([1.0, -2 * np.log(1 + mean_log)]),
)
_ALL = (
    LOGNORMAL,
    Family(
        name="lognormal_rounded",
        label="lognormal, continuous and rounded",
        parameters=("mu", "sigma"),
        log_weight=_rounded_weight,
        free=_lognormal_free,
        named=_lognormal_named,
        start=lambda mean_log: np.array([1.0, -2 * np.log(1 + mean_log)]),
    ),
    Family(
        name="log_quadratic",
        label="log-quadratic",
        parameters=("s", "tau"),
        log_weight=lambda ranks, values: -values[0] * np.log(ranks) - values[1] / 2 * np.log(ranks) ** 2,
        free=_same,
        named=_same,
        start=lambda _: np.array([1.0, 0.05]),
    ),
    Family(
        name="power_law",
        label="power law",
        parameters=("s",),
        log_weight=lambda ranks, values: -values[0] * np.log(ranks),
        free=_same,
        named=_same,
        start=lambda mean_log: np.array([1 + 1 / (1 + mean_log)]),
    ),
    Family(
        name="power_law_cutoff",
        label="power law with cut-off",
        parameters=("s", "scale"),
        log_weight=lambda ranks, values: -values[0] * np.log(ranks) - ranks / values[1],
        free=lambda values: np.array([values[0], np.log(values[1])]),
        named=lambda free: np.array([free[0], np.exp(free[1])]),
        start=lambda _: np.array([1.2, np.log(5000.0)]),
    ),
    Family(
        name="zipf_mandelbrot",
        label="Zipf–Mandelbrot",
        parameters=("s", "shift"),
        log_weight=lambda ranks, values: -values[0] * np.log(ranks + values[1]),
        free=lambda values: np.array([values[0], np.log1p(values[1])]),
        named=lambda free: np.array([free[0], np.expm1(free[1])]),
        start=lambda _: np.array([1.5, 0.3]),
    ),
    Family(
        name="weibull",
        label="discrete Weibull",
        parameters=("scale", "shape"),
        log_weight=_weibull_weight,
        free=np.log,
        named=np.exp,
        start=lambda mean_log: np.array([mean_log, np.log(0.3)]),
    ),
    Family(
        name="negative_binomial",
        label="negative binomial",
        parameters=("size", "mean"),
        log_weight=_negative_binomial_weight,
        free=np.log,
        named=np.exp,
        start=lambda mean_log: np.array([np.log(0.1), 2 * mean_log + 2]),
    ),
    with_mass_at_1(LOGNORMAL),
)
FAMILIES: dict[str, Family] = {each.name: each for each in _ALL}


def family(name: str) -> Family:
    """The family of this name. Raises ParameterError listing what there is."""
    if name not in FAMILIES:
        raise ParameterError(f"no family {name!r}", "family", f"There is: {', '.join(FAMILIES)}.")
    return FAMILIES[name]
