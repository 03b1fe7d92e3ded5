"""The families of rank distributions, each by its logarithmic weight over the ranks; normalizing is common to all.

Every family lives on the ranks first … V of a finite vocabulary. Besides the parameters that one reads it has natural
ones, in which the weight and its derivatives are smooth up to the family's edge, and the edge lies at 0 of a natural
parameter: 1/σ² = 0 for a lognormal, 1/scale = 0 for a cut-off. There the family turns into another, its limit, which
has fewer parameters.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import factorial

import numpy as np
from scipy.special import expit, logit

from rbp.core.arrays import Integers, Reals
from rbp.core.errors import ParameterError
from rbp.stats.rank_counts import Points, by_rank, log_sums, rounded, rounded_up, single

Slopes = tuple[Reals, Reals | None]
Convert = Callable[[Reals, int], Reals]


def _same(values: Reals, first: int) -> Reals:
    return values


@dataclass(frozen=True)
class Limit:
    """What a family turns into where some of its natural parameters are 0.

    embed: the limit's natural parameters as those of the family; least_first: the limit is part of the family from
    this first rank on.
    """

    family: "Family"
    embed: Callable[[Reals], Reals]
    least_first: int = 1


@dataclass(frozen=True)
class Family:
    """A family of distributions of ranks.

    name: its key; label: as a figure shows it; parameters: their names, in whose order all vectors stand.
    natural(values, first), named(natural, first): between the parameters and the natural ones, shape (p,).
    weight(points, natural): ln of the mass up to a constant, shape (n,); slopes: its first derivatives, shape (p, n),
    and its second ones, shape (p, p, n), or None where it is linear. origin: natural parameters to begin a fit with;
    positive: the places of those above 0; limits: what the family is where one is 0. points(starts, V): where the
    weight of bins is evaluated. free(values, first), bounded(free, first): between parameters and unbounded numbers.
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
    positive: tuple[int, ...] = ()
    limits: tuple[Limit, ...] = ()
    free: Convert = _same
    bounded: Convert = _same

    def log_masses(self, values: Reals, first: int, vocabulary: int) -> Reals:
        """ln P(R = k) of every rank first … V; not finite where the parameters give no distribution."""
        points = by_rank(self.points, first, vocabulary)
        weight = log_sums(self.weight(points, self.natural(values, first)) + points.log_measure, points.begin)
        return np.asarray(weight - log_sums(weight, [0]), dtype=np.float64)


def _power_weight(points: Points, natural: Reals) -> Reals:
    return np.asarray(-natural[0] * points.log)


def _power_slopes(points: Points, natural: Reals) -> Slopes:
    return -points.log[None], None


def _quadratic_weight(points: Points, natural: Reals) -> Reals:
    # ψ of equation 10 over ψ(1): with s = 1 − μ/σ² and τ = 1/σ² nothing cancels, however large |μ| and σ are
    s, tau = natural
    return np.asarray(-(s + tau / 2 * points.log) * points.log)


def _quadratic_slopes(points: Points, natural: Reals) -> Slopes:
    return np.stack([-points.log, -(points.log**2) / 2]), None


def _lognormal_natural(values: Reals, first: int) -> Reals:
    mu, sigma = values
    return np.array([1 - mu / sigma**2, sigma**-2])


def _lognormal_named(natural: Reals, first: int) -> Reals:
    s, tau = natural
    return np.array([(1 - s) / tau, tau**-0.5])


def _lognormal_free(values: Reals, first: int) -> Reals:
    s, tau = _lognormal_natural(values, first)
    return np.array([s, np.log(tau)])


def _lognormal_bounded(free: Reals, first: int) -> Reals:
    return _lognormal_named(np.array([free[0], np.exp(free[1])]), first)


def _logs(values: Reals, first: int) -> Reals:
    return np.asarray(np.log(values))


def _powers(free: Reals, first: int) -> Reals:
    return np.asarray(np.exp(free))


def _geometric_weight(points: Points, natural: Reals) -> Reals:
    return np.asarray(-natural[0] * (points.at - points.first))


def _geometric_slopes(points: Points, natural: Reals) -> Slopes:
    return (points.first - points.at)[None], None


def _cutoff_weight(points: Points, natural: Reals) -> Reals:
    s, rate = natural
    return np.asarray(-s * points.log - rate * points.at)


def _cutoff_slopes(points: Points, natural: Reals) -> Slopes:
    return np.stack([-points.log, -points.at]), None


_SERIES = np.arange(2.0, 19)
_EXPONENTIAL = [1 / (factorial(n) * (n + 3)) for n in range(18)][::-1]  # ∫ u² exp(t u) du, in powers of t


def _mandelbrot_weight(points: Points, natural: Reals) -> Reals:
    """−s ln(1 + (k − first)/(shift + first)): with r = s η and η = 1/(shift + first) it is geometric at η = 0."""
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


def _box_cox(log: Reals, c: float) -> tuple[Reals, Reals, Reals]:
    """ψ = (xᶜ − 1)/c and its first two derivatives in c, from ln x; at c = 0 it is ln x.

    The n-th derivative is (ln x)ⁿ⁺¹ Iₙ with Iₙ the integral of uⁿ exp(c u ln x) over 0 … 1. I₂ is a series where its
    exponent is small; each Iₙ follows from its neighbour, in the direction that loses no digits.
    """
    t = c * log
    power = np.exp(t)
    near = np.abs(t) < 1
    small, large = np.where(near, t, 0.0), np.where(near, 1.0, t)
    zeroth = np.expm1(large) / large
    first = (power - zeroth) / large
    second = np.where(near, np.polyval(_EXPONENTIAL, small), (power - 2 * first) / large)
    first = np.where(near, (power - t * second) / 2, first)
    zeroth = np.where(near, power - t * first, zeroth)
    return zeroth * log, first * log**2, second * log**3


def _weibull_weight(points: Points, natural: Reals) -> Reals:
    """The density x^(c−1) exp(−β (xᶜ − 1)/c): with β = c/scaleᶜ it is Weibull's, and regular at β = 0 and at c = 0."""
    beta, c = natural
    with np.errstate(over="ignore"):
        psi = np.expm1(c * points.log) / c if c else points.log
    return np.asarray((c - 1) * points.log - beta * psi)


def _weibull_slopes(points: Points, natural: Reals) -> Slopes:
    beta, c = natural
    psi, first, second = _box_cox(points.log, c)
    curves = np.array([[np.zeros_like(psi), -first], [-first, -beta * second]])
    return np.stack([-psi, points.log - beta * first]), curves


def _weibull_natural(values: Reals, first: int) -> Reals:
    scale, shape = values
    return np.array([shape * scale**-shape, shape])


def _weibull_named(natural: Reals, first: int) -> Reals:
    beta, c = natural
    return np.array([(c / beta) ** (1 / c), c])


def _binomial_weight(points: Points, natural: Reals) -> Reals:
    """Γ(f + r)/f! exp(−θ f) of f = k − 1 failures, from the factors (f − 1 + r)/f, which lose nothing at large f."""
    size, theta = natural
    failures = points.at[1:] - 1
    rising = np.append(0.0, np.cumsum(np.log1p((size - 1) / failures)))
    return np.asarray(rising - theta * (points.at - points.first))


def _binomial_slopes(points: Points, natural: Reals) -> Slopes:
    each = 1 / (points.at[1:] - 2 + natural[0])
    none = np.zeros(len(points.at))
    by_size, twice = (np.append(0.0, np.cumsum(part)) for part in (each, -(each**2)))
    return np.stack([by_size, points.first - points.at]), np.array([[twice, none], [none, none]])


def _binomial_natural(values: Reals, first: int) -> Reals:
    size, mean = values
    return np.array([size, np.log1p(size / mean)])


def _binomial_named(natural: Reals, first: int) -> Reals:
    size, theta = natural
    return np.array([size, size / np.expm1(theta)])


@dataclass(frozen=True, kw_only=True)
class MassAt1(Family):
    """A mixture of a point mass at rank 1 and another family: rank 1 has a share of its own, the others follow `tail`.

    As the share at 1 is free, how much of it `tail` would give cannot be told, and is left out: parameter `share_1`
    is all of P(R = 1), and may be less than what `tail` alone has. weight, slopes and points are those of `tail`.
    """

    tail: Family

    def log_masses(self, values: Reals, first: int, vocabulary: int) -> Reals:
        """ln P(R = k) of every rank first … V; without rank 1 that of the tail."""
        others = self.tail.log_masses(values[1:], max(first, 2), vocabulary)
        return others if first > 1 else np.append(np.log(values[0]), np.log1p(-values[0]) + others)


def with_mass_at_1(base: Family) -> MassAt1:
    """The mixture of a point mass at rank 1 and `base`."""
    return MassAt1(
        name=f"mass_at_1_{base.name}",
        label=f"point mass at 1 + {base.label}",
        parameters=("share_1", *base.parameters),
        natural=lambda values, first: np.append(logit(values[0]), base.natural(values[1:], 2)),
        named=lambda natural, first: np.append(expit(natural[0]), base.named(natural[1:], 2)),
        weight=base.weight,
        slopes=base.slopes,
        origin=(0.0, *base.origin),
        points=base.points,
        positive=tuple(place + 1 for place in base.positive),
        free=lambda values, first: np.append(logit(values[0]), base.free(values[1:], 2)),
        bounded=lambda free, first: np.append(expit(free[0]), base.bounded(free[1:], 2)),
        tail=base,
    )


POWER_LAW = Family("power_law", "power law", ("s",), _power_weight, _power_slopes, (1.0,))
_ROUNDED_POWER_LAW = replace(
    POWER_LAW, name="power_law_rounded", label="power law, continuous and rounded", origin=(2.0,), points=rounded
)
_ROUNDED_UP_POWER_LAW = replace(
    POWER_LAW,
    name="power_law_rounded_up",
    label="power law, continuous and rounded up",
    origin=(0.5,),
    points=rounded_up,
)
_GEOMETRIC = Family("geometric", "geometric", ("rate",), _geometric_weight, _geometric_slopes, (0.0,))
_HARMONIC = Family(
    name="harmonic",
    label="1/(k − 1)",
    parameters=(),
    weight=lambda points, natural: _binomial_weight(points, np.zeros(2)),
    slopes=lambda points, natural: (np.empty((0, len(points.at))), None),
    origin=(),
)
_LOG_SERIES = Family(
    name="log_series",
    label="log series",
    parameters=("rate",),
    weight=lambda points, natural: _binomial_weight(points, np.append(0.0, natural)),
    slopes=lambda points, natural: _geometric_slopes(points, natural),
    origin=(0.01,),
    positive=(0,),
    limits=(Limit(_HARMONIC, lambda natural: np.zeros(1), 2),),
)
_ENDLESS_BINOMIAL = Family(
    name="negative_binomial_endless",
    label="negative binomial of infinite mean",
    parameters=("size",),
    weight=lambda points, natural: _binomial_weight(points, np.append(natural, 0.0)),
    slopes=lambda points, natural: _first_of(_binomial_slopes(points, natural)),
    origin=(0.5,),
    positive=(0,),
    limits=(Limit(_HARMONIC, lambda natural: np.zeros(1), 2),),
)


def _first_of(slopes: Slopes) -> Slopes:
    one, two = slopes
    return one[:1], None if two is None else two[:1, :1]


def _edge(natural: Reals) -> Reals:
    return np.append(natural, 0.0)


LOGNORMAL = Family(
    name="lognormal",
    label="lognormal",
    parameters=("mu", "sigma"),
    natural=_lognormal_natural,
    named=_lognormal_named,
    weight=_quadratic_weight,
    slopes=_quadratic_slopes,
    origin=(1.0, 0.1),
    positive=(1,),
    limits=(Limit(POWER_LAW, _edge),),
    free=_lognormal_free,
    bounded=_lognormal_bounded,
)
_ALL = (
    LOGNORMAL,
    replace(
        LOGNORMAL,
        name="lognormal_rounded",
        label="lognormal, continuous and rounded",
        points=rounded,
        limits=(Limit(_ROUNDED_POWER_LAW, _edge),),
    ),
    Family(
        name="log_quadratic",
        label="log-quadratic",
        parameters=("s", "tau"),
        weight=_quadratic_weight,
        slopes=_quadratic_slopes,
        origin=(1.0, 0.0),
    ),
    POWER_LAW,
    Family(
        name="power_law_cutoff",
        label="power law with cut-off",
        parameters=("s", "scale"),
        natural=lambda values, first: np.array([values[0], 1 / values[1]]),
        named=lambda natural, first: np.array([natural[0], 1 / natural[1]]),
        weight=_cutoff_weight,
        slopes=_cutoff_slopes,
        origin=(1.0, 1e-3),
        positive=(1,),
        limits=(Limit(POWER_LAW, _edge),),
        free=lambda values, first: np.array([values[0], np.log(values[1])]),
        bounded=lambda free, first: np.array([free[0], np.exp(free[1])]),
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
        positive=(1,),
        limits=(Limit(_GEOMETRIC, _edge),),
        free=lambda values, first: np.array([values[0], np.log(values[1] + first)]),
        bounded=lambda free, first: np.array([free[0], np.exp(free[1]) - first]),
    ),
    Family(
        name="weibull",
        label="discrete Weibull",
        parameters=("scale", "shape"),
        natural=_weibull_natural,
        named=_weibull_named,
        weight=_weibull_weight,
        slopes=_weibull_slopes,
        origin=(0.5, 0.5),
        points=rounded_up,
        positive=(0, 1),
        limits=(
            # x^(c−1) at β = 0, and x^(−β−1) at c = 0: one power law, on both sides of s = 1
            Limit(_ROUNDED_UP_POWER_LAW, lambda natural: np.maximum([natural[0] - 1, 1 - natural[0]], 0.0)),
        ),
        free=_logs,
        bounded=_powers,
    ),
    Family(
        name="negative_binomial",
        label="negative binomial",
        parameters=("size", "mean"),
        natural=_binomial_natural,
        named=_binomial_named,
        weight=_binomial_weight,
        slopes=_binomial_slopes,
        origin=(0.3, 1e-3),
        positive=(0, 1),
        limits=(
            Limit(_ENDLESS_BINOMIAL, _edge),
            Limit(_LOG_SERIES, lambda natural: np.append(0.0, natural), 2),  # without rank 1, whose mass goes to 1
        ),
        free=_logs,
        bounded=_powers,
    ),
    with_mass_at_1(LOGNORMAL),
)
FAMILIES: dict[str, Family] = {each.name: each for each in _ALL}
_LIMITS = {limit.family.name: limit.family for each in _ALL for limit in each.limits}
_BY_NAME = FAMILIES | _LIMITS | {"harmonic": _HARMONIC, "mass_at_1_power_law": with_mass_at_1(POWER_LAW)}


def family(name: str) -> Family:
    """The family of this name, or the limit of one. Raises ParameterError listing what there is."""
    if name not in _BY_NAME:
        raise ParameterError(f"no family {name!r}", "family", f"There is: {', '.join(FAMILIES)}.")
    return _BY_NAME[name]
