"""The families of rank distributions, each by its logarithmic weight over the ranks; all are normalized alike.

Every family is defined on the ranks first … V of a finite vocabulary. Besides its usual parameters it has natural
parameters, in which the weight and its derivatives are smooth up to the family's edge, where a natural parameter is 0:
1/σ² = 0 for a lognormal, 1/scale = 0 for a cut-off. At the edge the family becomes another one, its limit, which has
fewer parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from companion.stats.rank_points import Points, by_rank, ceiling, log_sums, rounded, single
from rbp.arrays import Integers, Reals
from rbp.errors import ParameterError

Slopes = tuple[Reals, Reals | None]
Convert = Callable[[Reals, int], Reals]


def _same(values: Reals, first: int) -> Reals:
    return values


@dataclass(frozen=True)
class Family:
    """A family of distributions of ranks.

    name: its key; label: as a figure shows it; parameters: their names, in whose order all vectors stand.
    natural(values, first), named(natural, first): between the parameters and the natural ones, shape (p,).
    weight(points, natural): ln of the mass up to a constant, shape (n,); slopes: its derivatives, shapes (p, n) and (p,
    p, n), the second None where it is linear. origin: natural parameters to begin a fit with; limit: what the family is
    where its last natural parameter is 0, for ranks from `limit_since` on. points(starts, V): where the weight of
    bins is evaluated.
    """

    name: str
    label: str
    parameters: tuple[str, ...]
    weight: Callable[[Points, Reals], Reals]
    slopes: Callable[[Points, Reals], Slopes]
    origin: tuple[float, ...]
    natural: Convert = _same
    named: Convert = _same
    points: Callable[[Integers, int], Points] = single
    limit: "Family | None" = None
    limit_since: int = 1

    @property
    def positive(self) -> tuple[int, ...]:
        """The places of natural parameters that must be above 0."""
        return (len(self.parameters) - 1,) if self.limit else ()

    def log_masses(self, values: Reals, first: int, vocabulary: int) -> Reals:
        """Compute ln P(R = k) of every rank first … V; not finite where the parameters give no distribution."""
        points = by_rank(self.points, first, vocabulary)
        weight = log_sums(self.weight(points, self.natural(values, first)) + points.log_measure, points.begin)
        return np.asarray(weight - log_sums(weight, [0]), dtype=np.float64)


def _linear(statistics: Callable[[Points], list[Reals]]) -> dict[str, Any]:
    """Build weight and slopes of a family whose weight is linear in its natural parameters, with these statistics."""
    return {
        "weight": lambda points, natural: np.asarray(natural @ np.stack(statistics(points))),
        "slopes": lambda points, natural: (np.stack(statistics(points)), None),
    }


# ψ of equation 10 over ψ(1): with s = 1 − μ/σ² and τ = 1/σ² nothing cancels, however large |μ| and σ are
_QUADRATIC = _linear(lambda points: [-points.log, -(points.log**2) / 2])


def _lognormal_natural(values: Reals, first: int) -> Reals:
    mu, sigma = values
    return np.array([1 - mu / sigma**2, sigma**-2])


def _lognormal_named(natural: Reals, first: int) -> Reals:
    s, tau = natural
    return np.array([(1 - s) / tau, tau**-0.5])


_SERIES = np.arange(2.0, 19)


def _mandelbrot_weight(points: Points, natural: Reals) -> Reals:
    """Compute −s ln(1 + (k − first)/(shift + first)): with r = s η, η = 1/(shift + first), geometric at η = 0."""
    rate, eta = natural
    beyond = points.at - points.first
    return np.asarray(-rate * (np.log1p(eta * beyond) / eta if eta else beyond))


def _mandelbrot_slopes(points: Points, natural: Reals) -> Slopes:
    rate, eta = natural
    beyond = points.at - points.first
    u = eta * beyond
    by_rate = np.log1p(u) / eta if eta else beyond
    # h(η) = ln(1 + ηj)/η has h′ = −j² a(u) and h″ = −j³ b(u), which cancel where u is small
    small = u < 0.1
    v, w = u[small], u[~small]
    a, b = np.empty_like(u), np.empty_like(u)
    sign = (-1) ** _SERIES * (_SERIES - 1) / _SERIES
    a[small] = np.polyval(sign[::-1], v)
    b[small] = np.polyval(((_SERIES - 2) * sign)[:0:-1], v)
    a[~small] = (np.log1p(w) - w / (1 + w)) / w**2
    b[~small] = 1 / (w * (1 + w) ** 2) - 2 * a[~small] / w
    cross = beyond**2 * a
    curves = np.array([[np.zeros_like(u), cross], [cross, rate * beyond**3 * b]])
    return np.stack([-by_rate, rate * cross]), curves


def _mandelbrot_natural(values: Reals, first: int) -> Reals:
    s, shift = values
    return np.array([s / (first + shift), 1 / (first + shift)])


def _mandelbrot_named(natural: Reals, first: int) -> Reals:
    rate, eta = natural
    return np.array([rate / eta, 1 / eta - first])


POWER_LAW = Family("power_law", "power law", ("s",), origin=(1.0,), **_linear(lambda points: [-points.log]))
_ROUNDED_POWER_LAW = replace(
    POWER_LAW, name="power_law_rounded", label="power law, rounded", origin=(2.0,), points=rounded
)
_CEILING_POWER_LAW = replace(
    _ROUNDED_POWER_LAW, name="power_law_ceiling", label="power law, rounded up", points=ceiling
)
_GEOMETRIC = Family(
    "geometric", "geometric", ("rate",), origin=(0.0,), **_linear(lambda points: [points.first - points.at])
)
LOGNORMAL = Family(
    name="lognormal",
    label="lognormal",
    parameters=("mu", "sigma"),
    natural=_lognormal_natural,
    named=_lognormal_named,
    **_QUADRATIC,
    origin=(1.0, 0.1),
    limit=POWER_LAW,
)
_ALL = (
    LOGNORMAL,
    replace(
        LOGNORMAL,
        name="lognormal_rounded",
        label="lognormal, rounded",
        points=rounded,
        limit=_ROUNDED_POWER_LAW,
    ),
    # RBP_k = Φ((ln k − μ)/σ) over its value at k = V, from rank 1; a power of x of 1 or steeper has no mass to norm it
    # below 1, so the limit needs rank 2
    replace(
        LOGNORMAL,
        name="lognormal_ceiling",
        label="lognormal, rounded up",
        points=ceiling,
        limit=_CEILING_POWER_LAW,
        limit_since=2,
    ),
    POWER_LAW,
    Family(
        name="power_law_cutoff",
        label="power law with cut-off",
        parameters=("s", "scale"),
        natural=lambda values, first: np.array([values[0], 1 / values[1]]),
        named=lambda natural, first: np.array([natural[0], 1 / natural[1]]),
        **_linear(lambda points: [-points.log, -points.at]),
        origin=(1.0, 1e-3),
        limit=POWER_LAW,
    ),
    Family(
        name="zipf_mandelbrot",
        label="Zipf–Mandelbrot",
        parameters=("s", "shift"),
        natural=_mandelbrot_natural,
        named=_mandelbrot_named,
        weight=_mandelbrot_weight,
        slopes=_mandelbrot_slopes,
        origin=(1.0, 0.5),
        limit=_GEOMETRIC,
    ),
)
FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}
_BY_NAME = FAMILIES | {family.limit.name: family.limit for family in _ALL if family.limit}


def family(name: str) -> Family:
    """Return the family of this name, or the limit of one. Raises ParameterError listing the names."""
    if name not in _BY_NAME:
        raise ParameterError(f"no family {name!r}", "family", f"There is: {', '.join(FAMILIES)}.")
    return _BY_NAME[name]
