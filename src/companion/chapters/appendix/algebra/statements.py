"""Equations 10 to 26 of appendix C, and the sentences after them: each built, then derived or refuted.

The limits of 22 to 26 rest on one identity. With λ = −μ/σ² and Z = c/ψ(1),

    Z = Σ_{k≥1} k^{−(1+λ)} exp(−ln²k/(2σ²)),   −ln p₁ = ln Z,   c/φ(μ/σ) = Z/σ.

For λ > −1 the summand falls with k, so that Z lies between 1 and 1 + its integral from 1, which is 1 + σΦ(μ/σ)/φ(μ/σ).
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import pandas as pd
import sympy as sp

from companion.chapters.appendix.algebra import notation
from companion.chapters.appendix.algebra.notation import (
    FAILS,
    FOLLOWS,
    I1,
    I2,
    PART,
    Checked,
    Equation,
    P,
    Z,
    a,
    c,
    k,
    lam,
    latex,
    mu,
    sigma,
    t,
    x,
)

_S1, _S2 = sp.symbols("S_1 S_2", real=True)  # Σ ψ(k) ln k and Σ ψ(k) ln² k
_B = sp.Symbol("b", positive=True)  # −μ/σ where it is large
CE = sp.Symbol(r"\mathrm{CE}", positive=True)
SCALE, SQUARE = sp.log(sp.sqrt(2 * sp.pi) * sigma), mu**2 / (2 * sigma**2)


def _verdict(holds: bool, so: str = FOLLOWS) -> str:
    return so if holds else FAILS


def _equal(left: sp.Expr, right: sp.Expr) -> str:
    return latex(sp.Eq(left, right, evaluate=False))


# 10 to 17: exact

EQ10 = Equation("10", notation.psi(x), "=", notation.lognormal_density(x))
EQ11 = Equation("11", c, "=", sp.Sum(notation.psi(k), (k, 1, sp.oo)))
EQ12 = Equation("12", sp.Derivative(notation.Phi(x), x), "=", notation.varphi(x))
EQ13 = Equation("13", P, "=", notation.Phi(mu / sigma))
EQ13B = Equation("13, below", notation.psi(1), "=", notation.varphi(a) / sigma)
EQ14 = Equation("14", I1, "=", mu * P + sigma * notation.varphi(a))
EQ15 = Equation("15", I2, "=", (mu**2 + sigma**2) * P + mu * sigma * notation.varphi(a))
EQ16 = Equation("16", -sp.log(notation.psi(1) / c), "=", sp.log(c) + SCALE + SQUARE)
EQ17 = Equation(
    "17",
    -sp.log(notation.psi(k) / c),
    "=",
    SCALE + sp.log(c) + (sp.log(k) - mu) ** 2 / (2 * sigma**2) + sp.log(k),
)


def check_10() -> Checked:
    """Check that ψ is a density on x > 0; restricted to whole numbers it is renormalized, an assumption of its own."""
    density = notation.lognormal_density(x).subs(x, sp.exp(t)) * sp.exp(t)
    integral = sp.simplify(sp.integrate(sp.simplify(density), (t, -sp.oo, sp.oo)))
    return Checked(
        "10",
        "Ranks have the lognormal density at the whole numbers, renormalized.",
        EQ10,
        _verdict(integral == 1),
        "That ranks follow it is the hypothesis.",
        (("the integral", _equal(sp.Integral(notation.psi(x), (x, 0, sp.oo)), integral)),),
    )


def check_11() -> Checked:
    """Check that the sum converges: k²ψ(k) → 0, whatever μ and σ."""
    log_term = sp.expand_log(sp.log(notation.lognormal_density(x) * x**2), force=True)
    limit = sp.limit(sp.expand(log_term.subs(sp.log(x), t)), t, sp.oo)
    return Checked(
        "11",
        "The normalizer is a finite sum over all whole numbers.",
        EQ11,
        _verdict(limit == -sp.oo),
        "It converges. Real ranks end at the vocabulary's size.",
        (("faster than 1/k²", limit_line(r"\ln\left(x^2 \psi(x)\right)", r"x \to \infty", limit)),),
    )


def check_12() -> Checked:
    """Check that Φ' = φ."""
    derivative = sp.diff(notation.standard_cdf(x), x)
    holds = sp.simplify(derivative - notation.standard_density(x)) == 0
    line = _equal(sp.Derivative(notation.standard_cdf(x), x), derivative)
    return Checked("12", "φ is the density of Φ.", EQ12, _verdict(holds), "", (("the derivative", line),))


def check_13() -> Checked:
    """Check P = ∫₁^∞ψ = Φ(μ/σ), by integration, and ψ(1) = φ(a)/σ."""
    line = _equal(sp.Integral(notation.psi(x), (x, 1, sp.oo)), notation.truncated_moment(0))
    return Checked(
        "13",
        "The density's mass above 1 is Φ(μ/σ), and ψ(1) = φ(a)/σ.",
        EQ13,
        _verdict(EQ13.holds() and EQ13B.holds()),
        "",
        (("the integral", line), ("at 1", EQ13B.tex)),
    )


def check_moment(equation: Equation, power: int) -> Checked:
    """Check equation 14 or 15, a truncated moment, by integration."""
    integral = sp.Integral(notation.psi(x) * sp.log(x) ** power, (x, 1, sp.oo))
    return Checked(
        equation.number,
        f"The truncated moment of ln{'²' if power == 2 else ''} x has the closed form given.",
        equation,
        _verdict(equation.holds()),
        "",
        (("the integral", _equal(integral, notation.truncated_moment(power))),),
    )


def check_16() -> Checked:
    """Check −ln p₁ in three terms."""
    return Checked(
        "16",
        "−ln p₁ is the sum of ln c, ln(√(2π)σ) and μ²/(2σ²).",
        EQ16,
        _verdict(EQ16.holds()),
        "The last two terms are −ln ψ(1), and c contains ψ(1).",
        (("with p₁ = ψ(1)/c", EQ16.tex),),
    )


def check_17() -> Checked:
    """Check −Σ p ln p termwise: −ln p_k = ln c + ln(√(2π)σ) + (ln k − μ)²/(2σ²) + ln k, and the p_k sum to 1."""
    right = SCALE + sp.log(c) + ((_S2 - 2 * mu * _S1 + mu**2 * c) / (2 * sigma**2) + _S1) / c
    weighted = sp.simplify(entropy_of_sums() - sp.expand_log(right, force=True))
    return Checked(
        "17",
        "−Σ p ln p has the form given; it is called the cross-entropy.",
        EQ17,
        _verdict(EQ17.holds() and weighted == 0),
        "But −Σ p ln p is the entropy of the rank, not the cross-entropy.",
        (("each term", EQ17.tex),),
    )


def entropy_of_sums() -> sp.Expr:
    """Write out Σ p_k·(−ln p_k) with p = ψ/c, in c, Σψ ln k and Σψ ln²k: linear in the powers of ln k."""
    power = sp.Symbol("ell", real=True)
    term = sp.Poly(sp.expand(sp.expand_log(EQ17.right, force=True).subs(sp.log(k), power)), power)
    sums = {0: c, 1: _S1, 2: _S2}
    return sum((coefficient * sums[degree] / c for (degree,), coefficient in term.terms()), sp.Integer(0))


# 18 to 21: sums replaced by integrals

FRACTION = (P * ((sigma**2 - mu**2) / (2 * sigma**2) + mu) + notation.varphi(a) * (sigma - mu / (2 * sigma))) / c
RIGHT18 = SCALE + sp.log(c) + ((I2 - 2 * mu * I1 + mu**2 * c) / (2 * sigma**2) + I1) / c
RIGHT19 = (
    SCALE
    + sp.log(c)
    + SQUARE
    + (
        P * ((mu**2 + sigma**2) / (2 * sigma**2) + mu)
        + notation.varphi(a) * (mu / (2 * sigma) + sigma)
        - mu / sigma**2 * (mu * P + sigma * notation.varphi(a))
    )
    / c
)
RIGHT21 = SCALE + sp.log(c) + SQUARE + FRACTION

EQ18 = Equation("18", CE, "≈", RIGHT18)
EQ19 = Equation("19", CE, "≈", RIGHT19)
EQ20 = Equation("20", c, "≈", notation.psi(1) / 2 + P)
EQ21 = Equation("21", CE, "≈", RIGHT21)
STEP_19 = Equation("18 → 19", RIGHT18.subs({I1: EQ14.right, I2: EQ15.right}), "=", RIGHT19)
STEP_21 = Equation("19 → 21", RIGHT19, "=", RIGHT21)


def boundary(power: int, order: int) -> sp.Expr:
    """Compute the Euler–Maclaurin term of Σ_{k≥1} ψ(k) ln^power(k) of the given order, over ψ(1), in λ and σ.

    Order 0 is f(1)/2; order j ≥ 1 is −B₂ⱼ f^{(2j−1)}(1)/(2j)!.
    """
    f = notation.lognormal_density(x) * sp.log(x) ** power
    at_1 = f if order == 0 else sp.diff(f, x, 2 * order - 1)
    weight = sp.Rational(1, 2) if order == 0 else -sp.bernoulli(2 * order) / sp.factorial(2 * order)
    term = weight * (at_1 / notation.lognormal_density(x)).subs(x, 1)
    return sp.factor(sp.expand(sp.simplify(term).subs(mu, -lam * sigma**2)))


def check_18() -> Checked:
    """Check the sums replaced by integrals; the half of the first term belongs to c alone, for ln 1 = 0."""
    halves = [boundary(power, 0) for power in range(3)]
    line = r",\quad ".join(
        rf"\frac{{1}}{{2}}\,{latex(notation.psi(x) * sp.log(x) ** power)}\Big|_{{x=1}} "
        rf"= {latex(half * notation.psi(1))}"
        for power, half in enumerate(halves)
    )
    return Checked(
        "18",
        "With both sums replaced by integrals, and c kept, equation 17 becomes 18.",
        EQ18,
        _verdict(halves == [sp.Rational(1, 2), 0, 0]),
        "ψ ln k and ψ ln² k have no boundary term, since ln 1 = 0.",
        (("boundary terms", line),),
    )


def check_step(equation: Equation, step: Equation, finding: str) -> Checked:
    """Check equation 19 or 21: an identity once 18 is accepted."""
    return Checked(
        equation.number,
        f"Equation {equation.number} is the same as the one before it.",
        equation,
        _verdict(step.holds()),
        finding,
        (("difference", latex(sp.simplify(notation.unfold(step.left - step.right)))),),
    )


def check_20() -> Checked:
    """Check c by Euler–Maclaurin: its next terms, over ψ(1)."""
    terms = [boundary(0, order) for order in range(1, 4)]
    next_term = Equation("20, next term", c / notation.psi(1), "≈", P / notation.psi(1) + sp.Rational(1, 2) + terms[0])
    return Checked(
        "20",
        "The normalizer is about ψ(1)/2 + P.",
        EQ20,
        PART,
        "Further terms grow as powers of λ: good while λ is small beside 2π.",
        (
            ("with the next term", next_term.tex),
            *((f"term of order {order}", latex(term)) for order, term in enumerate(terms, 1)),
        ),
    )


# 22 to 26: limits, and what is left of c when it cancels

SUMMAND = x ** (-(1 + lam)) * sp.exp(-(sp.log(x) ** 2) / (2 * sigma**2))
EQ22 = Equation("22", notation.Phi(x), "= o", notation.varphi(x))
EQ23 = Equation("23", notation.psi(1), "= o", notation.varphi(a))
EQ24 = Equation("24", c, "= o", notation.varphi(mu / sigma))
EQ25 = Equation("25", -sp.log(c), ">", sp.log(2 * sp.pi) / 2 + SQUARE)
EQ26 = Equation("26", FRACTION, "= o", sp.log(c))
C_OF_Z = notation.lognormal_density(sp.Integer(1)) * Z
"""c = ψ(1)·Z, with ψ(1) written out."""


def summand_identity() -> bool:
    """Return whether ψ(x)/ψ(1) is the summand of Z, at λ = −μ/σ²."""
    ratio = sp.log(notation.lognormal_density(x)) - sp.log(notation.lognormal_density(sp.Integer(1))) - sp.log(SUMMAND)
    return bool(sp.simplify(sp.expand(sp.expand_log(ratio.subs(lam, -mu / sigma**2), force=True))) == 0)


def falls() -> bool:
    """Return whether the summand of Z falls in x ≥ 1 for every λ > 0: its logarithmic derivative is negative."""
    y = sp.Symbol("y", nonnegative=True)  # ln x
    slope = sp.simplify(sp.diff(sp.expand_log(sp.log(SUMMAND), force=True), x) * x).subs(sp.log(x), y)
    return bool(sp.simplify(slope).is_negative)


def neg_log_p1() -> sp.Expr:
    """Simplify equation 16 with c = ψ(1)·Z."""
    return sp.simplify(sp.expand_log(EQ16.right.subs(c, C_OF_Z), force=True))


def mills(b: sp.Expr) -> sp.Expr:
    """Return Φ(−b)/φ(b)."""
    return sp.erfc(b / sp.sqrt(2)) / 2 / notation.standard_density(b)


def fraction_of_mills() -> sp.Expr:
    """Write the fraction of equation 26 with P = φ·Mills and c = φ·Z/σ, in λ, σ and Z: φ cancels."""
    b = lam * sigma
    numerator = mills(b) * ((1 - b**2) / 2 - b * sigma) + sigma + b / 2
    return sigma / Z * numerator


def limit_line(expression: str, limit: str, value: sp.Expr) -> str:
    """Write a limit as TeX."""
    return rf"\lim_{{{limit}}} {expression} = {latex(value)}"


def check_22() -> Checked:
    """Check Φ = o(φ) to the left: the Mills ratio vanishes."""
    ratio = notation.standard_cdf(t) / notation.standard_density(t)
    limit = sp.limit(ratio, t, -sp.oo)
    return Checked(
        "22",
        "Φ(x) = o(φ(x)) as x → −∞.",
        EQ22,
        _verdict(limit == 0),
        "As x → −∞ the ratio vanishes like 1/|x|, slowly.",
        (
            ("the limit", limit_line(r"\frac{\Phi(x)}{\varphi(x)}", r"x \to -\infty", limit)),
            ("how fast, at x = −b", rf"\frac{{\Phi(-b)}}{{\varphi(b)}} = {latex(sp.series(mills(_B), _B, sp.oo, 6))}"),
        ),
    )


def check_23() -> Checked:
    """Check ψ(1)/φ(a) = 1/σ."""
    ratio = sp.simplify(notation.unfold(notation.psi(1) / notation.varphi(a)))
    return Checked(
        "23",
        "ψ(1) = o(φ(a)) as σ → ∞.",
        EQ23,
        _verdict(sp.limit(ratio, sigma, sp.oo) == 0),
        "The ratio is 1/σ: σ itself must grow without bound.",
        (("the ratio", rf"\frac{{\psi(1)}}{{\varphi(a)}} = {latex(ratio)}"),),
    )


def check_24() -> Checked:
    """Check c/φ(μ/σ) = Z/σ, from 1/σ to 1/σ + Mills. It vanishes if, and only if, σ → ∞ with μ/σ → −∞."""
    ratio = sp.simplify(notation.unfold(notation.psi(1) * Z / notation.varphi(mu / sigma)))
    fixed = sp.limit(1 / sigma + mills(_B), _B, sp.oo)
    both = sp.limit(fixed, sigma, sp.oo)
    sound = summand_identity() and falls() and ratio == Z / sigma
    upper = latex(notation.Phi(mu / sigma) / notation.varphi(mu / sigma))
    return Checked(
        "24",
        "c = o(φ(μ/σ)).",
        EQ24,
        _verdict(sound and fixed == 1 / sigma and both == 0, PART),
        "It needs both μ/σ → −∞ and σ → ∞. With σ fixed, c/φ(μ/σ) → 1/σ.",
        (
            ("with Z = c/ψ(1)", rf"\frac{{c}}{{\varphi(\mu/\sigma)}} = {latex(ratio)}"),
            ("bounds", rf"\frac{{1}}{{\sigma}} \le \frac{{Z}}{{\sigma}} \le \frac{{1}}{{\sigma}} + {upper}"),
            ("(a) σ fixed", limit_line(r"\frac{Z}{\sigma}", r"\mu \to -\infty", fixed)),
            ("both limits", limit_line(r"\frac{Z}{\sigma}", r"\sigma \to \infty,\ \mu/\sigma \to -\infty", both)),
        ),
    )


def check_25() -> Checked:
    """Check the inequality, which is Z < σ; "faster" would need the ratio of the sides to grow, but it tends to 1."""
    left = -sp.expand_log(sp.log(C_OF_Z), force=True)
    difference = sp.simplify(left - EQ25.right)
    is_z_below_sigma = sp.simplify(sp.expand_log(difference - sp.log(sigma / Z), force=True)) == 0
    ratio = sp.simplify((left / SQUARE).subs(mu, -lam * sigma**2))
    on_b = sp.limit(ratio.subs(Z, sp.zeta(1 + lam)), sigma, sp.oo)
    on_a = sp.limit(ratio.subs(Z, 1), lam, sp.oo)
    return Checked(
        "25",
        "Eventually −ln c exceeds ½ln(2π) + μ²/(2σ²), so ln c decays faster than μ²/(2σ²).",
        EQ25,
        _verdict(is_z_below_sigma and on_a == on_b == 1, PART),
        "The inequality is Z < σ, and holds once σ is large. But the ratio of −ln c to μ²/(2σ²) tends to 1.",
        (
            ("left side less right side", latex(difference)),
            ("(a) σ fixed", limit_line(r"\frac{-\ln c}{\mu^2/(2\sigma^2)}", r"\mu \to -\infty", on_a)),
            ("(b) λ fixed", limit_line(r"\frac{-\ln c}{\mu^2/(2\sigma^2)}", r"\sigma \to \infty", on_b)),
        ),
    )


def check_26() -> Checked:
    """Compare the fraction with ln c, and with what is left of CE; the numerator is no polynomial."""
    z = sp.Rational(1, 2) + sigma * mills(lam * sigma)  # by equation 20
    on_b = sp.simplify(sp.limit(fraction_of_mills().subs(Z, z), sigma, sp.oo))
    same = sp.simplify(RIGHT21 - EQ16.right - FRACTION) == 0
    ratio = sp.simplify(on_b / sp.log(sp.limit(z, sigma, sp.oo)))
    return Checked(
        "26",
        "The numerator grows polynomially and c shrinks, so the fraction is negligible against ln c.",
        EQ26,
        _verdict(same and on_b.is_positive, PART),
        "P and φ(a) vanish together with c. The fraction tends to a constant, which is all by which CE exceeds −ln p₁.",
        (
            ("21 less 16", rf"\mathrm{{CE}} - (-\ln p_1) = {latex(FRACTION)}"),
            ("(b) λ fixed", limit_line(r"(26)", r"\sigma \to \infty", on_b)),
            ("over −ln p₁", limit_line(r"\frac{(26)}{-\ln p_1}", r"\sigma \to \infty", ratio)),
        ),
    )


def check_dominant(term: sp.Expr, number: str, claim: str, name: str) -> Checked:
    """Check that a term dominates its sum: their ratio would tend to 1. The sum stays bounded, the term does not."""
    in_path = term.subs(c, C_OF_Z).subs(mu, -lam * sigma**2)
    ratio = sp.log(Z) / sp.expand_log(in_path, force=True)
    limit = sp.limit(ratio.subs(Z, sp.zeta(1 + lam)), sigma, sp.oo)
    exact = neg_log_p1()
    return Checked(
        number,
        claim,
        Equation(number, -sp.log(notation.psi(1) / c), "=", sp.log(Z)),
        FAILS if limit == 0 and exact == sp.log(Z) else FOLLOWS,
        f"{name} is cancelled by the other two terms; ln Z is left, and stays bounded.",
        (
            ("equation 16", rf"-\ln p_1 = {latex(exact)}"),
            ("(b) λ fixed", limit_line(rf"\frac{{-\ln p_1}}{{{latex(term)}}}", r"\sigma \to \infty", limit)),
        ),
    )


@cache
def all_checked() -> tuple[Checked, ...]:
    """Check every equation and sentence, in the appendix's order; it takes a few seconds, once."""
    return (
        check_10(),
        check_11(),
        check_12(),
        check_13(),
        check_moment(EQ14, 1),
        check_moment(EQ15, 2),
        check_16(),
        check_17(),
        check_18(),
        check_step(EQ19, STEP_19, "I₁ and I₂ put in."),
        check_20(),
        check_step(EQ21, STEP_21, "P and φ(a) collected."),
        check_22(),
        check_23(),
        check_24(),
        check_25(),
        check_26(),
        check_dominant(sp.log(c), "after 26", "ln c becomes the dominant part of CE and of −ln p₁.", "ln c"),
        check_dominant(SQUARE, "earlier, B.4", "μ²/(2σ²) dominates CE and −ln p₁ (earlier version).", "μ²/(2σ²)"),
    )


_EXACT = ("10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "21")


def summary(checked: Sequence[Checked]) -> dict[str, Any]:
    """Count the statements and the verdicts of each kind; with the verdicts that the ledger's claims need."""
    verdict = {item.number: item.verdict for item in checked}
    verdicts = [item.verdict for item in checked]
    return {
        "statements": len(verdicts),
        **{f"statements.{key}": verdicts.count(name) for key, name in notation.KEYS.items()},
        "statements.exact": len(_EXACT),
        "statements.derived": sum(verdict[number] == FOLLOWS for number in _EXACT),
        "statements.c_vanishes": verdict["24"],
        "statements.log_c_dominates": verdict["after 26"] == FOLLOWS,
        "statements.square_dominates": verdict["earlier, B.4"] == FOLLOWS,
    }


def verdicts_table(checked: Iterable[Checked]) -> dict[str, Any]:
    """List every statement with its verdict, for `Page.table`; the download has the findings too."""
    rows = [(item.number, item.claim, item.verdict, item.finding) for item in checked]
    table = pd.DataFrame(rows, columns=["equation", "claim", "verdict", "finding"])
    return {
        "table": table.drop(columns="finding"),
        "data": table,
    }


# What is left on a path: series, with w_k = k^{−(1+λ)} exp(−ln²k/(2σ²)), −ln p₁ = ln Z and CE = ln Z − Σ w_k ln w_k/Z

_EPS = sp.Symbol("epsilon", positive=True)


def on_fixed_sigma() -> dict[str, sp.Expr]:
    """Expand path (a), σ fixed, μ → −∞, so λ → ∞: rank 2 is left, and after it rank 3 and the square of rank 2.

    The series is in w₂ = ε, with w₃ of a higher order: w₃/w₂ falls as (2/3)^λ, and so does every later rank more.
    """
    w2, w3 = (sp.Integer(r) ** (-(1 + lam)) * sp.exp(-(sp.log(r) ** 2) / (2 * sigma**2)) for r in (2, 3))
    log_z = sp.series(sp.log(1 + _EPS), _EPS, 0, 3).removeO()
    return {
        "−ln p₁, leading term": log_z.coeff(_EPS, 1) * w2,
        "−ln p₁, next terms": w3 + log_z.coeff(_EPS, 2) * w2**2,
        # −w₂ ln w₂/Z is −ε ln ε, but for what vanishes with ε
        "CE, leading terms": w2 * sp.expand(log_z.coeff(_EPS, 1) - sp.expand_log(sp.log(w2), force=True)),
    }


def on_fixed_lambda() -> dict[str, sp.Expr]:
    """Expand path (b), λ fixed, σ → ∞: ranks become zeta-distributed with exponent 1 + λ; the next term is O(1/σ²).

    exp(−ln²k/(2σ²)) = 1 − ε ln²k + … with ε = 1/(2σ²), and ζₙ = Σ k^{−s} lnⁿk = (−1)ⁿ ζ⁽ⁿ⁾(s).
    """
    zeta = sp.symbols("zeta_:5", positive=True)
    z0, z1, z2 = (zeta[n] - _EPS * zeta[n + 2] for n in range(3))
    log_z = sp.log(z0)
    terms = {}
    for name, expression in (("−ln p₁", log_z), ("CE", log_z + ((1 + lam) * z1 + _EPS * z2) / z0)):
        terms[f"{name}, limit"] = sp.simplify(expression.subs(_EPS, 0))
        terms[f"{name}, next term"] = sp.simplify(sp.diff(expression, _EPS).subs(_EPS, 0)) / (2 * sigma**2)
    return terms
