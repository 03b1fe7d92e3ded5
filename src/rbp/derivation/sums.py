"""The exact sums of appendix C in high precision, and the size of every term at a given μ and σ (mpmath).

Σ w_k lnⁿk with w_k = ψ(k)/ψ(1) = k^{−(1+λ)} exp(−ln²k/(2σ²)) runs to infinity and falls slowly. The first HEAD terms
are summed; the rest is Euler–Maclaurin from there, whose error is far below the working precision.
"""

from dataclasses import dataclass
from typing import Any

import mpmath

mp: Any = mpmath.MPContext()  # a context of its own: its numbers keep their precision wherever they are used
mp.dps = 40
Number = Any  # of `mp`

HEAD = 200  # where the Euler–Maclaurin formula takes over
ORDER = 8  # its terms


@dataclass(frozen=True)
class Sums:
    """Σ w_k, Σ w_k ln k and Σ w_k ln² k over k = 1, 2, …, of exact sums or of the appendix's approximations."""

    mu: Number
    sigma: Number
    z: Number
    z1: Number
    z2: Number

    @property
    def log_scale(self) -> Number:
        """ln(√(2π)σ)."""
        return mp.log(mp.sqrt(2 * mp.pi) * self.sigma)

    @property
    def square(self) -> Number:
        """μ²/(2σ²)."""
        return self.mu**2 / (2 * self.sigma**2)

    @property
    def log_c(self) -> Number:
        """ln c = ln ψ(1) + ln Z."""
        return mp.log(self.z) - self.log_scale - self.square

    @property
    def neg_log_p1(self) -> Number:
        """−ln p₁, as equation 16 adds it up."""
        return self.log_c + self.log_scale + self.square

    @property
    def fraction(self) -> Number:
        """What equation 17 (or 21) adds to −ln p₁ to give CE: (26), or its exact counterpart."""
        lam = -self.mu / self.sigma**2
        return ((1 + lam) * self.z1 + self.z2 / (2 * self.sigma**2)) / self.z

    @property
    def entropy(self) -> Number:
        """CE as the appendix has it: −Σ p ln p."""
        return self.neg_log_p1 + self.fraction


def exact(mu: float | Number, sigma: float | Number) -> Sums:
    """The exact sums. σ must be positive; μ may have any sign."""
    m, s = mp.mpf(mu), mp.mpf(sigma)
    return Sums(m, s, *(_sum(m, s, power) for power in range(3)))


def approximate(mu: float | Number, sigma: float | Number) -> Sums:
    """The sums as equations 18 to 20 have them: c ≈ ψ(1)/2 + P, and integrals for the others."""
    m, s = mp.mpf(mu), mp.mpf(sigma)
    return Sums(m, s, mp.mpf(1) / 2 + _integral(m, s, 0, 1), _integral(m, s, 1, 1), _integral(m, s, 2, 1))


def _sum(mu: Number, sigma: Number, power: int) -> Number:
    q = 1 - mu / sigma**2
    logs = [mp.log(n) for n in range(1, HEAD)]
    head = mp.fsum(ln**power * mp.exp(-q * ln - ln**2 / (2 * sigma**2)) for ln in logs)
    return head + _integral(mu, sigma, power, HEAD) + _boundary(q, sigma, power)


def _integral(mu: Number, sigma: Number, power: int, start: int) -> Number:
    """∫_start^∞ ln^power(x) ψ(x)/ψ(1) dx, in closed form: moments of a normal cut off at ln start."""
    b = (mp.log(start) - mu) / sigma
    tail, density = mp.erfc(b / mp.sqrt(2)) / 2, mp.npdf(b)
    moments = (tail, density, tail + b * density)  # of the standard normal above b, of order 0, 1, 2
    expanded = (
        moments[0],
        mu * moments[0] + sigma * moments[1],
        mu**2 * moments[0] + 2 * mu * sigma * moments[1] + sigma**2 * moments[2],
    )
    return expanded[power] * mp.sqrt(2 * mp.pi) * sigma * mp.exp(mu**2 / (2 * sigma**2))


def _boundary(q: Number, sigma: Number, power: int) -> Number:
    """f(HEAD)/2 − Σ B₂ⱼ f^{(2j−1)}(HEAD)/(2j)! for f(x) = lnⁿx · x^{−q} exp(−ln²x/(2σ²)).

    A derivative of x^{−r} p(ln x) exp(…) is x^{−r−1} [p′ − (r + ln x/σ²) p](ln x) exp(…): polynomials all the way.
    """
    ln = mp.log(HEAD)
    damping = mp.exp(-(ln**2) / (2 * sigma**2))
    polynomial = [mp.mpf(0)] * power + [mp.mpf(1)]
    total = mp.mpf(0)
    for order in range(2 * ORDER):
        value = mp.polyval(polynomial[::-1], ln) * damping * mp.exp(-(q + order) * ln)
        if order == 0:
            total += value / 2
        elif order % 2:
            total -= mp.bernoulli(order + 1) / mp.factorial(order + 1) * value
        polynomial = _differentiated(polynomial, q + order, sigma)
    return total


def _differentiated(polynomial: list[Number], r: Number, sigma: Number) -> list[Number]:
    following = [mp.mpf(0)] * (len(polynomial) + 1)
    for degree, coefficient in enumerate(polynomial):
        following[degree] -= r * coefficient
        following[degree + 1] -= coefficient / sigma**2
        if degree:
            following[degree - 1] += degree * coefficient
    return following
