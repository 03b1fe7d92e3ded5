"""The sums and terms of appendix C in numbers: exact in high precision, and as the appendix approximates them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import linregress

from rbp.evidence import published
from rbp.paper.appendix_c import paths

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
        """CE + ln p₁: what equation 17 adds to −ln p₁; with the approximate sums, equation 26 as printed."""
        lam = -self.mu / self.sigma**2
        return ((1 + lam) * self.z1 + self.z2 / (2 * self.sigma**2)) / self.z

    @property
    def entropy(self) -> Number:
        """CE as the appendix has it: −Σ p ln p."""
        return self.neg_log_p1 + self.fraction


def exact_sums(mu: float | Number, sigma: float | Number) -> Sums:
    """The exact sums. σ must be positive; μ may have any sign."""
    m, s = mp.mpf(mu), mp.mpf(sigma)
    return Sums(m, s, *(_sum(m, s, power) for power in range(3)))


def approximate_sums(mu: float | Number, sigma: float | Number) -> Sums:
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


_PARTS = ("log_c", "neg_log_p1", "fraction", "entropy")


def authors_points() -> pd.DataFrame:
    """The authors' μ and σ with each model's size and vocabulary, by size: model, size, vocabulary, mu, sigma."""
    models = published.models().rename(columns={"non_embedding_params": "size", "vocab_size": "vocabulary"})
    table = published.lognormal_parameters().merge(models, on="model")
    return table[["model", "size", "vocabulary", "mu", "sigma"]].sort_values("size", ignore_index=True)


def equation_terms(points: pd.DataFrame) -> pd.DataFrame:
    """Every term of −ln p₁ and CE at the μ and σ of `points`, by exact sums and as equations 18 to 21 have them.

    Adds lam (−μ/σ²), ratio (μ/σ), log_scale, square, log_c, neg_log_p1, fraction, entropy; the last four again with
    `_approx`: fraction_approx is equation 26 as printed, and fraction its exact counterpart, CE + ln p₁;
    fraction_share and fraction_share_approx: of the respective entropy; c_error (the relative error of equation 20's
    c), c_over_phi (Z/σ of equation 24), and zeta_p1 and zeta_entropy: the leading terms of path (b), missing where
    λ ≤ 0.
    """
    rows = []
    for mu, sigma in points[["mu", "sigma"]].itertuples(index=False, name=None):
        own, near = exact_sums(mu, sigma), approximate_sums(mu, sigma)
        lam = -mu / sigma**2
        row = {"lam": lam, "ratio": mu / sigma, "log_scale": own.log_scale, "square": own.square}
        row |= {name: getattr(own, name) for name in _PARTS} | {
            f"{name}_approx": getattr(near, name) for name in _PARTS
        }
        row |= {"c_error": near.z / own.z - 1, "c_over_phi": own.z / own.sigma}
        row |= dict(zip(("zeta_p1", "zeta_entropy"), _zeta(lam), strict=True))
        rows.append({name: float(value) for name, value in row.items()})
    table = pd.concat([points.reset_index(drop=True), pd.DataFrame(rows)], axis=1)
    shares = {f"fraction_share{end}": table[f"fraction{end}"] / table[f"entropy{end}"] for end in ("", "_approx")}
    return table.assign(**shares)


def _zeta(lam: float) -> tuple[float, float]:
    if lam <= 0:
        return np.nan, np.nan
    on_path = paths.fixed_lambda()
    return paths.value(on_path.neg_log_p1, lam), paths.value(on_path.entropy, lam)


@dataclass(frozen=True)
class Extrapolation:
    """A smooth curve through the fitted parameters, each of two numbers being linear in ln S.

    name: which are linear; r_squared: of the worse of the two lines; at(size): μ and σ; asymptotic: the exponent that
    −ln p₁ and CE share in the end, or None where neither is a power of S.
    """

    name: str
    r_squared: float
    at: Callable[[float], tuple[float, float]]
    asymptotic: float | None


def extrapolations(points: pd.DataFrame) -> list[Extrapolation]:
    """Two ways to go on along the authors' path, each by two lines in ln S through the points (size, mu, sigma).

    The first takes μ and σ as linear: then μ/σ tends to a constant and λ = −μ/σ² to 0. The second takes λ and σ as
    linear: then λ → ∞, rank 2 alone is left (path a), and −ln p₁ ≈ 2^{−(1+λ)} falls as S to the power −b ln 2, b being
    λ's slope; CE falls alike, but for a factor that grows as ln S.
    """
    x = np.log(points["size"].to_numpy(float))
    mu, sigma = points["mu"].to_numpy(float), points["sigma"].to_numpy(float)
    mu_line, sigma_line, lam_line = (linregress(x, y) for y in (mu, sigma, -mu / sigma**2))

    def on(line: Any, size: float) -> float:
        return float(line.intercept + line.slope * np.log(size))

    def first(size: float) -> tuple[float, float]:
        return on(mu_line, size), on(sigma_line, size)

    def second(size: float) -> tuple[float, float]:
        at_sigma = on(sigma_line, size)
        return -on(lam_line, size) * at_sigma**2, at_sigma

    def worse(*lines: Any) -> float:
        return float(min(line.rvalue**2 for line in lines))

    power = float(lam_line.slope * np.log(2))
    return [
        Extrapolation("μ and σ linear in ln S", worse(mu_line, sigma_line), first, None),
        Extrapolation("λ and σ linear in ln S", worse(lam_line, sigma_line), second, power),
    ]


def along_path(path: Callable[[float], tuple[float, float]], sizes: npt.ArrayLike) -> pd.DataFrame:
    """−ln p₁ and CE by exact sums along a path of μ and σ: size, mu, sigma, neg_log_p1, entropy."""
    rows = []
    for size in np.asarray(sizes, dtype=np.float64):
        mu, sigma = path(float(size))
        at: Sums = exact_sums(mu, sigma)
        rows.append((size, mu, sigma, float(at.neg_log_p1), float(at.entropy)))
    return pd.DataFrame(rows, columns=["size", "mu", "sigma", "neg_log_p1", "entropy"])


def local_exponents(curve: pd.DataFrame) -> pd.DataFrame:
    """−d ln y/d ln S of −ln p₁ and CE between neighbouring rows of `along`: size (their middle), alpha_p1, alpha_ce."""
    x = np.log(curve["size"].to_numpy())
    found = {
        name: -np.diff(np.log(curve[column].to_numpy())) / np.diff(x)
        for name, column in (("alpha_p1", "neg_log_p1"), ("alpha_ce", "entropy"))
    }
    return pd.DataFrame({"size": np.exp((x[1:] + x[:-1]) / 2), **found})
