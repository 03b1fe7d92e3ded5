"""Equations 10 to 17: what is exact in appendix C. Each `check_…` derives its equation and says what it found."""

import sympy as sp

from rbp.paper.appendix_c import notation
from rbp.paper.appendix_c.notation import FAILS, FOLLOWS, Checked, Equation, P, a, c, k, latex, mu, sigma, x

_S1, _S2 = sp.symbols("S_1 S_2", real=True)  # Σ ψ(k) ln k and Σ ψ(k) ln² k

EQ10 = Equation("10", notation.psi(x), "=", notation.lognormal_density(x))
EQ11 = Equation("11", c, "=", sp.Sum(notation.psi(k), (k, 1, sp.oo)))
EQ12 = Equation("12", sp.Derivative(notation.Phi(x), x), "=", notation.varphi(x))
EQ13 = Equation("13", P, "=", notation.Phi(mu / sigma))
EQ13B = Equation("13, below", notation.psi(1), "=", notation.varphi(a) / sigma)
EQ14 = Equation("14", notation.I1, "=", mu * P + sigma * notation.varphi(a))
EQ15 = Equation("15", notation.I2, "=", (mu**2 + sigma**2) * P + mu * sigma * notation.varphi(a))
EQ16 = Equation(
    "16", -sp.log(notation.psi(1) / c), "=", sp.log(c) + sp.log(sp.sqrt(2 * sp.pi) * sigma) + mu**2 / (2 * sigma**2)
)
EQ17 = Equation(
    "17",
    -sp.log(notation.psi(k) / c),
    "=",
    sp.log(sp.sqrt(2 * sp.pi) * sigma) + sp.log(c) + (sp.log(k) - mu) ** 2 / (2 * sigma**2) + sp.log(k),
)
_VERDICT = {True: FOLLOWS, False: FAILS}


def check_10() -> Checked:
    """ψ is a density on x > 0; restricted to whole numbers it is renormalized, which is an assumption of its own."""
    whole = sp.simplify(
        sp.integrate(
            sp.simplify(notation.lognormal_density(x).subs(x, sp.exp(notation.t)) * sp.exp(notation.t)),
            (notation.t, -sp.oo, sp.oo),
        )
    )
    return Checked(
        "10",
        "Ranks have the lognormal density at the whole numbers, renormalized.",
        EQ10,
        _VERDICT[whole == 1],
        "definition; integral by sympy",
        "That ranks follow it is the hypothesis.",
        (
            (
                "the integral",
                latex(sp.Eq(sp.Integral(notation.psi(x), (x, 0, sp.oo)), whole, evaluate=False)),
            ),
        ),
    )


def check_11() -> Checked:
    """The sum converges: k²ψ(k) → 0, whatever μ and σ."""
    log_term = sp.expand(
        sp.expand_log(sp.log(notation.lognormal_density(x) * x**2), force=True).subs(sp.log(x), notation.t)
    )
    limit = sp.limit(log_term, notation.t, sp.oo)
    return Checked(
        "11",
        "The normalizer is a finite sum over all whole numbers.",
        EQ11,
        _VERDICT[limit == -sp.oo],
        "limit by sympy",
        "It converges. Real ranks end at the vocabulary's size.",
        (("faster than 1/k²", rf"\lim_{{x \to \infty}} \ln\left(x^2 \psi(x)\right) = {latex(limit)}"),),
    )


def check_12() -> Checked:
    """Φ' = φ."""
    derivative = sp.diff(notation.standard_cdf(x), x)
    holds = sp.simplify(derivative - notation.standard_density(x)) == 0
    line = latex(sp.Eq(sp.Derivative(notation.standard_cdf(x), x), derivative, evaluate=False))
    return Checked(
        "12",
        "φ is the density of Φ.",
        EQ12,
        _VERDICT[holds],
        "derivative by sympy",
        "",
        (("the derivative", line),),
    )


def check_13() -> Checked:
    """P = ∫₁^∞ψ = Φ(μ/σ), by integration; ψ(1) = φ(a)/σ."""
    integral = notation.truncated_moment(0)
    return Checked(
        "13",
        "The density's mass above 1 is Φ(μ/σ), and ψ(1) = φ(a)/σ.",
        EQ13,
        _VERDICT[EQ13.holds() and EQ13B.holds()],
        "integral by sympy",
        "",
        (
            ("the integral", latex(sp.Eq(sp.Integral(notation.psi(x), (x, 1, sp.oo)), integral, evaluate=False))),
            ("at 1", EQ13B.tex),
        ),
    )


def check_moment(equation: Equation, power: int) -> Checked:
    """Equations 14 and 15: the truncated moments, by integration."""
    integral = sp.Eq(
        sp.Integral(notation.psi(x) * sp.log(x) ** power, (x, 1, sp.oo)),
        notation.truncated_moment(power),
        evaluate=False,
    )
    return Checked(
        equation.number,
        f"The truncated moment of ln{'²' if power == 2 else ''} x has the closed form given.",
        equation,
        _VERDICT[equation.holds()],
        "integral by sympy",
        "",
        (("the integral", latex(integral)),),
    )


def check_16() -> Checked:
    """−ln p₁ in three terms; and in one: with λ = −μ/σ², p₁ = 1/Z."""
    return Checked(
        "16",
        "−ln p₁ is the sum of ln c, ln(√(2π)σ) and μ²/(2σ²).",
        EQ16,
        _VERDICT[EQ16.holds()],
        "sympy",
        "The last two terms are −ln ψ(1), and c contains ψ(1).",
        (("with p₁ = ψ(1)/c", EQ16.tex),),
    )


def check_17() -> Checked:
    """−Σ p ln p termwise: each −ln p_k is ln c + ln(√(2π)σ) + (ln k − μ)²/(2σ²) + ln k, and the p_k sum to 1."""
    weighted = entropy_of_sums() - sp.expand_log(
        sp.log(sp.sqrt(2 * sp.pi) * sigma) + sp.log(c) + ((_S2 - 2 * mu * _S1 + mu**2 * c) / (2 * sigma**2) + _S1) / c,
        force=True,
    )
    holds = EQ17.holds() and sp.simplify(weighted) == 0
    return Checked(
        "17",
        "−Σ p ln p has the form given; it is called the cross-entropy.",
        EQ17,
        _VERDICT[holds],
        "sympy",
        "But −Σ p ln p is the entropy of the rank, not the cross-entropy.",
        (("each term", EQ17.tex),),
    )


def entropy_of_sums() -> sp.Expr:
    """Σ p_k·(−ln p_k) with p = ψ/c, written in c, Σψ ln k and Σψ ln²k: linear in the powers of ln k."""
    power = sp.Symbol("ell", real=True)
    term = sp.Poly(sp.expand(sp.expand_log(EQ17.right, force=True).subs(sp.log(k), power)), power)
    sums = {0: c, 1: _S1, 2: _S2}
    return sum((coefficient * sums[degree] / c for (degree,), coefficient in term.terms()), sp.Integer(0))


def checks() -> list[Checked]:
    """Equations 10 to 17."""
    return [
        check_10(),
        check_11(),
        check_12(),
        check_13(),
        check_moment(EQ14, 1),
        check_moment(EQ15, 2),
        check_16(),
        check_17(),
    ]
