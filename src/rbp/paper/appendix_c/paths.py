"""What is left of −ln p₁ and of CE along a path of (μ, σ), with the next term: series by sympy.

CE here is −Σ p ln p, as appendix C has it. With w_k = k^{−(1+λ)} exp(−ln²k/(2σ²)) and Z = Σw_k, −ln p₁ = ln Z and
CE = ln Z − Σ w_k ln w_k/Z.
"""

from dataclasses import dataclass

import mpmath as mp
import sympy as sp

from rbp.core.errors import ParameterError
from rbp.paper.appendix_c.notation import lam, sigma

_EPS = sp.Symbol("epsilon", positive=True)


@dataclass(frozen=True)
class Remains:
    """What −ln p₁ and CE become on a path: leading terms and the next ones; `condition` says which path it is."""

    name: str
    condition: str
    neg_log_p1: sp.Expr
    neg_log_p1_next: sp.Expr
    entropy: sp.Expr
    entropy_next: sp.Expr


def weight(rank: int) -> sp.Expr:
    """w_k of a rank."""
    return sp.Integer(rank) ** (-(1 + lam)) * sp.exp(-(sp.log(rank) ** 2) / (2 * sigma**2))


def fixed_sigma() -> Remains:
    """(a) σ fixed, μ → −∞, so λ → ∞: rank 2 is left, and after it rank 3 and the square of rank 2.

    The series is in w₂ = ε, with w₃ of a higher order: w₃/w₂ falls as (2/3)^λ, and so does every later rank more.
    """
    w2 = weight(2)
    log_z = sp.series(sp.log(1 + _EPS), _EPS, 0, 3).removeO()
    first, square = log_z.coeff(_EPS, 1), log_z.coeff(_EPS, 2)
    # −Σ w ln w/Z = −ε ln ε/(1 + ε): its first term, and the square's
    share = sp.series(_EPS / (1 + _EPS), _EPS, 0, 3).removeO()
    log_w2 = sp.expand_log(sp.log(w2), force=True)
    w3 = weight(3)
    log_w3 = sp.expand_log(sp.log(w3), force=True)
    return Remains(
        name="(a)",
        condition="σ fixed, μ → −∞",
        neg_log_p1=first * w2,
        neg_log_p1_next=w3 + square * w2**2,
        entropy=w2 * sp.expand(first - share.coeff(_EPS, 1) * log_w2),
        entropy_next=w3 - w3 * log_w3 + square * w2**2 - share.coeff(_EPS, 2) * w2**2 * log_w2,
    )


def fixed_lambda() -> Remains:
    """(b) λ fixed, σ → ∞: the ranks become zeta-distributed with exponent 1 + λ; the next term is of order 1/σ².

    exp(−ln²k/(2σ²)) = 1 − ε ln²k + … with ε = 1/(2σ²), and Σ k^{−s} lnⁿk = (−1)ⁿ ζ⁽ⁿ⁾(s).
    """
    zeta = zeta_moments()
    z0, z1, z2 = (zeta[n] - _EPS * zeta[n + 2] for n in range(3))
    s = 1 + lam
    log_z = sp.log(z0)
    entropy = log_z + (s * z1 + _EPS * z2) / z0

    def terms(expression: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        return sp.simplify(expression.subs(_EPS, 0)), sp.simplify(sp.diff(expression, _EPS).subs(_EPS, 0)) / (
            2 * sigma**2
        )

    (lead, following), (lead_ce, following_ce) = terms(log_z), terms(entropy)
    return Remains("(b)", "λ fixed, σ → ∞", lead, following, lead_ce, following_ce)


def zeta_moments() -> list[sp.Symbol]:
    """ζₙ = Σ k^{−s} lnⁿk for n = 0 … 4 at s = 1 + λ, as names: ζ(s) and, but for signs, its derivatives."""
    return [sp.Symbol(f"zeta_{n}", positive=True) for n in range(5)]


def value(expression: sp.Expr, at_lambda: float, at_sigma: float = 1.0) -> float:
    """The number that an expression of this module has at λ and σ."""
    if not at_lambda > 0:
        raise ParameterError(f"a zeta distribution needs λ above 0, not {at_lambda:g}", "λ", None)
    numbers = {name: (-1) ** n * mp.zeta(1 + at_lambda, derivative=n) for n, name in enumerate(zeta_moments())}
    return float(expression.subs({**numbers, lam: at_lambda, sigma: at_sigma}))
