"""Equations 18 to 21, and the Euler–Maclaurin formula that their approximation comes from."""

import sympy as sp

from rbp.paper.appendix_c import notation
from rbp.paper.appendix_c.exact import EQ14, EQ15
from rbp.paper.appendix_c.notation import (
    FAILS,
    FOLLOWS,
    I1,
    I2,
    PART,
    Checked,
    Equation,
    P,
    a,
    c,
    lam,
    latex,
    mu,
    sigma,
    x,
)

_LEVEL = sp.log(sp.sqrt(2 * sp.pi) * sigma) + sp.log(c)
FRACTION = (P * ((sigma**2 - mu**2) / (2 * sigma**2) + mu) + notation.varphi(a) * (sigma - mu / (2 * sigma))) / c

RIGHT18 = _LEVEL + ((I2 - 2 * mu * I1 + mu**2 * c) / (2 * sigma**2) + I1) / c
RIGHT19 = (
    _LEVEL
    + mu**2 / (2 * sigma**2)
    + (
        P * ((mu**2 + sigma**2) / (2 * sigma**2) + mu)
        + notation.varphi(a) * (mu / (2 * sigma) + sigma)
        - mu / sigma**2 * (mu * P + sigma * notation.varphi(a))
    )
    / c
)
RIGHT21 = _LEVEL + mu**2 / (2 * sigma**2) + FRACTION

CE = sp.Symbol(r"\mathrm{CE}", positive=True)
EQ18 = Equation("18", CE, "≈", RIGHT18)
EQ19 = Equation("19", CE, "≈", RIGHT19)
EQ20 = Equation("20", c, "≈", notation.psi(1) / 2 + P)
EQ21 = Equation("21", CE, "≈", RIGHT21)


def step_18_19() -> Equation:
    """The step from 18 to 19: I₁ and I₂ of equations 14 and 15 put into 18 give 19."""
    return Equation("18 → 19", RIGHT18.subs({I1: EQ14.right, I2: EQ15.right}), "=", RIGHT19)


def step_19_21() -> Equation:
    """The step from 19 to 21: collecting P and φ(a)."""
    return Equation("19 → 21", RIGHT19, "=", RIGHT21)


def boundary(power: int, order: int) -> sp.Expr:
    """The Euler–Maclaurin term of Σ_{k≥1} ψ(k) ln^power(k) of the given order, over ψ(1), in λ and σ.

    Order 0 is f(1)/2; order j ≥ 1 is −B₂ⱼ f^{(2j−1)}(1)/(2j)!.
    """
    f = notation.lognormal_density(x) * sp.log(x) ** power
    at_1 = f if order == 0 else sp.diff(f, x, 2 * order - 1)
    weight = sp.Rational(1, 2) if order == 0 else -sp.bernoulli(2 * order) / sp.factorial(2 * order)
    term = weight * (at_1 / notation.lognormal_density(x)).subs(x, 1)
    return sp.factor(sp.expand(sp.simplify(term).subs(mu, -lam * sigma**2)))


def check_18() -> Checked:
    """The sums replaced by integrals; the half of the first term belongs to c alone, for ln 1 = 0."""
    halves = [boundary(power, 0) for power in range(3)]
    consistent = halves == [sp.Rational(1, 2), 0, 0]
    line = r",\quad ".join(
        rf"\frac{{1}}{{2}}\,{latex(notation.psi(x) * sp.log(x) ** power)}\Big|_{{x=1}} "
        rf"= {latex(half * notation.psi(1))}"
        for power, half in enumerate(halves)
    )
    return Checked(
        "18",
        "With both sums replaced by integrals, and c kept, equation 17 becomes 18.",
        EQ18,
        FOLLOWS if consistent else FAILS,
        "sympy (Euler–Maclaurin)",
        "ψ ln k and ψ ln² k have no boundary term, since ln 1 = 0.",
        (("boundary terms", line),),
    )


def check_step(equation: Equation, step: Equation, finding: str) -> Checked:
    """Equations 19 and 21: identities once 18 is accepted."""
    difference = sp.simplify(notation.unfold(step.left - step.right))
    return Checked(
        equation.number,
        f"Equation {equation.number} is the same as the one before it.",
        equation,
        FOLLOWS if step.holds() else FAILS,
        "sympy",
        finding,
        (("difference", rf"{latex(sp.Integer(0)) if difference == 0 else latex(difference)}"),),
    )


def check_20() -> Checked:
    """Euler–Maclaurin: the next terms of c, over ψ(1)."""
    terms = [boundary(0, order) for order in range(1, 4)]
    shown = [(f"term of order {order}", latex(term)) for order, term in enumerate(terms, 1)]
    whole = Equation("20, next term", c / notation.psi(1), "≈", P / notation.psi(1) + sp.Rational(1, 2) + terms[0])
    return Checked(
        "20",
        "The normalizer is about ψ(1)/2 + P.",
        EQ20,
        PART,
        "sympy (Euler–Maclaurin)",
        "Further terms grow as powers of λ: good while λ is small beside 2π.",
        (("with the next term", whole.tex), *shown),
    )


def checks() -> list[Checked]:
    """Equations 18 to 21."""
    return [
        check_18(),
        check_step(EQ19, step_18_19(), "I₁ and I₂ put in."),
        check_20(),
        check_step(EQ21, step_19_21(), "P and φ(a) collected."),
    ]
