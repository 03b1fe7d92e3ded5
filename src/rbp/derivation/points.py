"""The terms of appendix C at given μ and σ, with exact sums; and three ways to go on from the authors' ten points."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import sympy as sp
from scipy.optimize import brentq
from scipy.stats import linregress, norm

from rbp import published
from rbp.derivation import paths
from rbp.derivation import symbols as s
from rbp.derivation.approximate import boundary
from rbp.derivation.sums import Sums, approximate, exact
from rbp.errors import ParameterError

Reals = npt.NDArray[np.float64]
_PARTS = ("log_c", "neg_log_p1", "fraction", "entropy")


def authors_points() -> pd.DataFrame:
    """The authors' μ and σ with each model's size and vocabulary, by size: model, size, vocabulary, mu, sigma."""
    models = published.models().rename(columns={"non_embedding_params": "size", "vocab_size": "vocabulary"})
    table = published.lognormal_parameters().merge(models, on="model")
    return table[["model", "size", "vocabulary", "mu", "sigma"]].sort_values("size", ignore_index=True)


def terms(points: pd.DataFrame) -> pd.DataFrame:
    """Every term of −ln p₁ and CE at the μ and σ of `points`, by exact sums and as equations 18 to 21 have them.

    Adds lam (−μ/σ²), ratio (μ/σ), log_scale, square, log_c, neg_log_p1, fraction, entropy; the last four again with
    `_approx`; c_error (the relative error of equation 20's c), c_over_phi (Z/σ of equation 24), and zeta_p1 and
    zeta_entropy: the leading terms of path (b), missing where λ ≤ 0.
    """
    rows = []
    for mu, sigma in points[["mu", "sigma"]].itertuples(index=False, name=None):
        own, near = exact(mu, sigma), approximate(mu, sigma)
        lam = -mu / sigma**2
        row = {"lam": lam, "ratio": mu / sigma, "log_scale": own.log_scale, "square": own.square}
        row |= {name: getattr(own, name) for name in _PARTS} | {
            f"{name}_approx": getattr(near, name) for name in _PARTS
        }
        row |= {"c_error": near.z / own.z - 1, "c_over_phi": own.z / own.sigma}
        row |= dict(zip(("zeta_p1", "zeta_entropy"), _zeta(lam), strict=True))
        rows.append({name: float(value) for name, value in row.items()})
    return pd.concat([points.reset_index(drop=True), pd.DataFrame(rows)], axis=1)


def _zeta(lam: float) -> tuple[float, float]:
    if lam <= 0:
        return np.nan, np.nan
    on_path = paths.fixed_lambda()
    return paths.value(on_path.neg_log_p1, lam), paths.value(on_path.entropy, lam)


def approximated_p1_is_1(sigma: float) -> float:
    """The μ at which equation 20 gives p₁ = 1; for a smaller μ it gives more. Raises ParameterError unless σ > 0.

    There 1/2 + σΦ(μ/σ)/φ(μ/σ) = 1.
    """
    if not sigma > 0:
        raise ParameterError(f"σ must be above 0, not {sigma}", "sigma", None)

    def excess(b: float) -> float:
        return float(np.log(2 * sigma) + norm.logcdf(-b) - norm.logpdf(b))

    if excess(-10) < 0:
        raise ParameterError(f"σ = {sigma} is too small for p₁ = 1 at any μ in reach", "sigma", "Try 0.1 or more.")
    return -sigma * float(brentq(excess, -10, 10 + 10 * sigma))


@dataclass(frozen=True)
class Extrapolation:
    """A smooth curve through the fitted parameters, each of two numbers being linear in ln S.

    name: which are linear; r_squared: of the worse of the two lines; at(size): μ and σ; end: what becomes of them as S
    grows; asymptotic: the exponent that −ln p₁ and CE share in the end, or None where neither is a power of S.
    """

    name: str
    r_squared: float
    at: Callable[[float], tuple[float, float]]
    end: str
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

    end = f"μ/σ → {mu_line.slope / sigma_line.slope:.1f} and λ → 0".replace("-", "−")
    power = float(lam_line.slope * np.log(2))
    return [
        Extrapolation(
            "μ and σ linear in ln S",
            worse(mu_line, sigma_line),
            first,
            end,
            None,
        ),
        Extrapolation("λ and σ linear in ln S", worse(lam_line, sigma_line), second, "λ → ∞", power),
    ]


def along(path: Callable[[float], tuple[float, float]], sizes: npt.ArrayLike) -> pd.DataFrame:
    """−ln p₁ and CE by exact sums along a path of μ and σ: size, mu, sigma, neg_log_p1, entropy."""
    rows = []
    for size in np.asarray(sizes, dtype=np.float64):
        mu, sigma = path(float(size))
        at: Sums = exact(mu, sigma)
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


def euler_maclaurin_errors(sigma: float, lam: Sequence[float], most: int) -> pd.DataFrame:
    """−ln p₁ with 0 … `most` Euler–Maclaurin terms beyond equation 20, less the exact one: lam, terms, error."""
    further = [sp.lambdify((s.lam, s.sigma), boundary(0, order)) for order in range(1, most + 1)]
    rows = []
    for value in lam:
        own = exact(-value * sigma**2, sigma)
        z = float(approximate(-value * sigma**2, sigma).z)
        for terms in range(most + 1):
            z += further[terms - 1](value, sigma) if terms else 0
            rows.append((value, terms, np.log(z) - float(own.neg_log_p1) if z > 0 else np.nan))
    return pd.DataFrame(rows, columns=["lam", "terms", "error"])
