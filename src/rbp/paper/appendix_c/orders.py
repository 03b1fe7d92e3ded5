"""Equations 22 to 26 as limits: which variable goes where, and what is left of c when it cancels.

Everything rests on one identity. With λ = −μ/σ² and Z = c/ψ(1),

    Z = Σ_{k≥1} k^{−(1+λ)} exp(−ln²k/(2σ²)),   −ln p₁ = ln Z,   c/φ(μ/σ) = Z/σ.

For λ > −1 the summand falls with k, so that Z lies between 1 and 1 + its integral from 1, which is 1 + σΦ(μ/σ)/φ(μ/σ).
"""

import sympy as sp

from rbp.paper.appendix_c import notation
from rbp.paper.appendix_c.approximate import FRACTION, RIGHT21
from rbp.paper.appendix_c.exact import EQ16
from rbp.paper.appendix_c.notation import (
    FAILS,
    FOLLOWS,
    PART,
    Checked,
    Equation,
    Z,
    a,
    c,
    k,
    lam,
    latex,
    mu,
    sigma,
    x,
)

_B = sp.Symbol("b", positive=True)  # −μ/σ where it is large
_SQUARE = mu**2 / (2 * sigma**2)

SUMMAND = x ** (-(1 + lam)) * sp.exp(-(sp.log(x) ** 2) / (2 * sigma**2))
EQ22 = Equation("22", notation.Phi(x), "= o", notation.varphi(x))
EQ23 = Equation("23", notation.psi(1), "= o", notation.varphi(a))
EQ24 = Equation("24", c, "= o", notation.varphi(mu / sigma))
EQ25 = Equation("25", -sp.log(c), ">", sp.log(2 * sp.pi) / 2 + _SQUARE)
EQ26 = Equation("26", FRACTION, "= o", sp.log(c))

#: c = ψ(1)·Z, with ψ(1) written out
C_OF_Z = notation.lognormal_density(sp.Integer(1)) * Z
MILLS = notation.Phi(mu / sigma) / notation.varphi(mu / sigma)


def summand_identity() -> bool:
    """Whether ψ(x)/ψ(1) is the summand of Z, at λ = −μ/σ²."""
    ratio = sp.log(notation.lognormal_density(x)) - sp.log(notation.lognormal_density(sp.Integer(1))) - sp.log(SUMMAND)
    return bool(sp.simplify(sp.expand(sp.expand_log(ratio.subs(lam, -mu / sigma**2), force=True))) == 0)


def falls() -> bool:
    """Whether the summand of Z falls in x ≥ 1 for every λ > 0: its logarithmic derivative is negative."""
    y = sp.Symbol("y", nonnegative=True)  # ln x
    slope = sp.simplify(sp.diff(sp.expand_log(sp.log(SUMMAND), force=True), x) * x).subs(sp.log(x), y)
    return bool(sp.simplify(slope).is_negative)


def neg_log_p1() -> sp.Expr:
    """What is left of equation 16 when c = ψ(1)·Z is put in."""
    return sp.simplify(sp.expand_log(EQ16.right.subs(c, C_OF_Z), force=True))


def gap() -> sp.Expr:
    """Equation 21 less equation 16: how much larger the approximated CE is than −ln p₁."""
    return sp.simplify(RIGHT21 - EQ16.right)


def mills(b: sp.Expr) -> sp.Expr:
    """Φ(−b)/φ(b)."""
    return sp.erfc(b / sp.sqrt(2)) / 2 / notation.standard_density(b)


def fraction_of_mills() -> sp.Expr:
    """The fraction of equation 26 with P = φ·Mills and c = φ·Z/σ, in λ, σ and Z: φ cancels."""
    b = lam * sigma
    numerator = mills(b) * ((1 - b**2) / 2 - b * sigma) + sigma + b / 2
    return sigma / Z * numerator


def approximate_z() -> sp.Expr:
    """Z by equation 20: 1/2 + σΦ(μ/σ)/φ(μ/σ), in λ and σ."""
    return sp.Rational(1, 2) + sigma * mills(lam * sigma)


def limit_line(expression: str, limit: str, value: sp.Expr) -> str:
    """A limit as TeX."""
    return rf"\lim_{{{limit}}} {expression} = {latex(value)}"


def check_22() -> Checked:
    """Φ = o(φ) to the left: the Mills ratio vanishes."""
    ratio = notation.standard_cdf(x) / notation.standard_density(x)
    y = sp.Symbol("y", real=True)
    limit = sp.limit(ratio.subs(x, y), y, -sp.oo)
    series = sp.series(mills(_B), _B, sp.oo, 6)
    return Checked(
        "22",
        "Φ(x) = o(φ(x)) as x → −∞.",
        EQ22,
        FOLLOWS if limit == 0 else FAILS,
        "limit by sympy",
        "As x → −∞ the ratio vanishes like 1/|x|, slowly.",
        (
            ("the limit", limit_line(r"\frac{\Phi(x)}{\varphi(x)}", r"x \to -\infty", limit)),
            ("how fast, at x = −b", rf"\frac{{\Phi(-b)}}{{\varphi(b)}} = {latex(series)}"),
        ),
    )


def check_23() -> Checked:
    """ψ(1)/φ(a) = 1/σ."""
    ratio = sp.simplify(notation.unfold(notation.psi(1) / notation.varphi(a)))
    limit = sp.limit(ratio, sigma, sp.oo)
    return Checked(
        "23",
        "ψ(1) = o(φ(a)) as σ → ∞.",
        EQ23,
        FOLLOWS if limit == 0 else FAILS,
        "limit by sympy",
        "The ratio is 1/σ: σ itself must grow without bound.",
        (("the ratio", rf"\frac{{\psi(1)}}{{\varphi(a)}} = {latex(ratio)}"),),
    )


def check_24() -> Checked:
    """c/φ(μ/σ) = Z/σ: between 1/σ and 1/σ + Mills. It vanishes if, and only if, σ → ∞ and then with μ/σ → −∞."""
    ratio = sp.simplify(notation.unfold(notation.psi(1) * Z / notation.varphi(mu / sigma)))
    upper = 1 / sigma + mills(_B)
    fixed = sp.limit(upper, _B, sp.oo)
    both = sp.limit(fixed, sigma, sp.oo)
    sound = summand_identity() and falls() and ratio == Z / sigma
    return Checked(
        "24",
        "c = o(φ(μ/σ)).",
        EQ24,
        PART if sound and fixed == 1 / sigma and both == 0 else FAILS,
        "bounds and limits by sympy",
        "It needs both μ/σ → −∞ and σ → ∞. With σ fixed, c/φ(μ/σ) → 1/σ.",
        (
            ("with Z = c/ψ(1)", rf"\frac{{c}}{{\varphi(\mu/\sigma)}} = {latex(ratio)}"),
            (
                "bounds",
                rf"\frac{{1}}{{\sigma}} \le \frac{{Z}}{{\sigma}} \le \frac{{1}}{{\sigma}} + {latex(MILLS)}",
            ),
            ("(a) σ fixed", limit_line(r"\frac{Z}{\sigma}", r"\mu \to -\infty", fixed)),
            ("both limits", limit_line(r"\frac{Z}{\sigma}", r"\sigma \to \infty,\ \mu/\sigma \to -\infty", both)),
        ),
    )


def check_25() -> Checked:
    """The inequality is Z < σ; "faster" would need the ratio of the two sides to grow: it tends to 1."""
    left = -sp.expand_log(sp.log(C_OF_Z), force=True)
    difference = sp.simplify(left - EQ25.right)
    is_z_below_sigma = sp.simplify(sp.expand_log(difference - sp.log(sigma / Z), force=True)) == 0
    zeta = sp.zeta(1 + lam)
    ratio = sp.simplify((left / _SQUARE).subs(mu, -lam * sigma**2))
    on_b = sp.limit(ratio.subs(Z, zeta), sigma, sp.oo)
    on_a = sp.limit(ratio.subs(Z, 1), lam, sp.oo)
    return Checked(
        "25",
        "Eventually −ln c exceeds ½ln(2π) + μ²/(2σ²), so ln c decays faster than μ²/(2σ²).",
        EQ25,
        PART if is_z_below_sigma and on_a == on_b == 1 else FAILS,
        "sympy, limits",
        "The inequality is Z < σ, and holds once σ is large. But the ratio of −ln c to μ²/(2σ²) tends to 1.",
        (
            ("left side less right side", latex(difference)),
            ("(a) σ fixed", limit_line(r"\frac{-\ln c}{\mu^2/(2\sigma^2)}", r"\mu \to -\infty", on_a)),
            ("(b) λ fixed", limit_line(r"\frac{-\ln c}{\mu^2/(2\sigma^2)}", r"\sigma \to \infty", on_b)),
        ),
    )


def check_dominant(term: sp.Expr, number: str, claim: str, name: str) -> Checked:
    """A dominant term of a sum has a ratio to it that tends to 1. Here the sum stays bounded and the term does not."""
    in_path = term.subs(c, C_OF_Z).subs(mu, -lam * sigma**2)
    ratio = sp.log(Z) / sp.expand_log(in_path, force=True)
    limit = sp.limit(ratio.subs(Z, sp.zeta(1 + lam)), sigma, sp.oo)
    sum_of_all = neg_log_p1()
    return Checked(
        number,
        claim,
        Equation(number, -sp.log(notation.psi(1) / c), "=", sp.log(Z)),
        FAILS if limit == 0 and sum_of_all == sp.log(Z) else FOLLOWS,
        "sympy, limit",
        f"{name} is cancelled by the other two terms; ln Z is left, and stays bounded.",
        (
            ("equation 16", rf"-\ln p_1 = {latex(sum_of_all)}"),
            ("(b) λ fixed", limit_line(rf"\frac{{-\ln p_1}}{{{latex(term)}}}", r"\sigma \to \infty", limit)),
        ),
    )


def check_26() -> Checked:
    """The fraction against ln c, and against what is left of CE; the numerator is no polynomial."""
    fraction = fraction_of_mills()
    on_b = sp.simplify(sp.limit(fraction.subs(Z, approximate_z()), sigma, sp.oo))
    same = sp.simplify(gap() - FRACTION) == 0
    ratio = sp.simplify(on_b / sp.log(sp.limit(approximate_z(), sigma, sp.oo)))
    return Checked(
        "26",
        "The numerator grows polynomially and c shrinks, so the fraction is negligible against ln c.",
        EQ26,
        PART if same and on_b.is_positive else FAILS,
        "sympy, limit",
        "P and φ(a) vanish together with c. The fraction tends to a constant, which is all by which CE exceeds −ln p₁.",
        (
            ("21 less 16", rf"\mathrm{{CE}} - (-\ln p_1) = {latex(FRACTION)}"),
            ("(b) λ fixed", limit_line(r"(26)", r"\sigma \to \infty", on_b)),
            ("over −ln p₁", limit_line(r"\frac{(26)}{-\ln p_1}", r"\sigma \to \infty", ratio)),
        ),
    )


def checks() -> list[Checked]:
    """Equations 22 to 26, the sentences after them, and the earlier version's argument."""
    return [
        check_22(),
        check_23(),
        check_24(),
        check_25(),
        check_26(),
        check_dominant(sp.log(c), "after 26", "ln c becomes the dominant part of CE and of −ln p₁.", "ln c"),
        check_dominant(_SQUARE, "earlier, B.4", "μ²/(2σ²) dominates CE and −ln p₁ (earlier version).", "μ²/(2σ²)"),
    ]


def summand_tex() -> str:
    """Z as a sum, as TeX, from the summand that the checks use."""
    return latex(sp.Eq(Z, sp.Sum(SUMMAND.subs(x, k), (k, 1, sp.oo)), evaluate=False))
