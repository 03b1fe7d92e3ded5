"""The notation of appendix C as sympy objects, an equation with the result of its check, and both as HTML."""

import html
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import sympy as sp

from companion.typesetting import mathml

mu = sp.Symbol("mu", real=True)
sigma = sp.Symbol("sigma", positive=True)
x = sp.Symbol("x", positive=True)
t = sp.Symbol("t", real=True)
k = sp.Symbol("k", integer=True, positive=True)

#: the normalizer, and the mass of the density above 1, as names
c = sp.Symbol("c", positive=True)
P = sp.Symbol("P", positive=True)
I1, I2 = sp.symbols("I_1 I_2", real=True)

#: a = −μ/σ, and λ = −μ/σ²: the tail's extra exponent
a = sp.Symbol("a", real=True)
lam = sp.Symbol("lambda", positive=True)
#: Z = c/ψ(1)
Z = sp.Symbol("Z", positive=True)

varphi = sp.Function("varphi", real=True)
Phi = sp.Function("Phi", real=True)
psi = sp.Function("psi", real=True)


def standard_density(x: sp.Expr) -> sp.Expr:
    """Write out φ of equation 12."""
    return sp.exp(-(x**2) / 2) / sp.sqrt(2 * sp.pi)


def standard_cdf(x: sp.Expr) -> sp.Expr:
    """Write out Φ of equation 12, by the error function."""
    return (1 + sp.erf(x / sp.sqrt(2))) / 2


def lognormal_density(x: sp.Expr) -> sp.Expr:
    """Write out ψ of equation 10: the density of equation 9."""
    return sp.exp(-((sp.log(x) - mu) ** 2) / (2 * sigma**2)) / (sp.sqrt(2 * sp.pi) * sigma * x)


def unfold(expression: sp.Expr) -> sp.Expr:
    """Express all in μ, σ and elementary functions, and c: φ, Φ, ψ, a, P, I₁ and I₂ are replaced.

    I₁ and I₂ become their integrals, not the right sides of equations 14 and 15.
    """
    for name, value in ((I1, truncated_moment(1)), (I2, truncated_moment(2)), (P, truncated_moment(0))):
        if expression.has(name):
            expression = expression.subs(name, value)
    named = {varphi: standard_density, Phi: standard_cdf, psi: lognormal_density}
    for function, meaning in named.items():
        expression = expression.replace(function, meaning)
    return expression.subs(a, -mu / sigma).doit()


@cache
def truncated_moment(power: int) -> sp.Expr:
    """Integrate ∫₁^∞ ψ(x) ln^power(x) dx: x = e^t, then sympy's integrator (equations 13 to 15)."""
    integrand = sp.simplify((lognormal_density(x) * sp.log(x) ** power).subs(x, sp.exp(t)) * sp.exp(t))
    # the integrand is a polynomial times a normal density: the integral converges for every μ and σ > 0
    return sp.simplify(sp.integrate(integrand, (t, 0, sp.oo), conds="none"))


def is_zero(expression: sp.Expr) -> bool:
    """Prove an expression in the names above 0 for all μ, σ and c: by simplification, never by numbers."""
    plain = sp.expand_log(unfold(expression), force=True)
    return bool(sp.simplify(sp.expand(plain.rewrite(sp.erf))) == 0)


FOLLOWS, PART, FAILS = "follows", "follows under a condition", "does not follow"
KEYS = {"follows": FOLLOWS, "part": PART, "fails": FAILS}
Relation = Literal["=", "≈", "= o", ">", "→"]
_TEX = {"=": "=", "≈": r"\approx", ">": ">", "→": r"\to"}


@dataclass(frozen=True)
class Equation:
    """left relation right, as sympy expressions in the names of `symbols`; number: as the paper has it, or ours."""

    number: str
    left: sp.Expr
    relation: Relation
    right: sp.Expr

    @property
    def tex(self) -> str:
        """The equation as TeX, from the expressions that are checked."""
        left, right = latex(self.left), latex(self.right)
        if self.relation == "= o":
            return rf"{left} = o\left({right}\right)"
        return f"{left} {_TEX[self.relation]} {right}"

    def holds(self) -> bool:
        """Return whether left = right for all μ and σ, by algebra: for "=", or "≈" of both sides in the same terms."""
        return is_zero(self.left - self.right)


@dataclass(frozen=True)
class Checked:
    """An equation or a sentence of the appendix with its verdict.

    number: the paper's; claim: what is claimed, in our words; equation: the statement checked; verdict: FOLLOWS, PART
    or FAILS; finding: what there is to say of it, or ""; work: the lines of the check (what each is, and its TeX).
    """

    number: str
    claim: str
    equation: Equation
    verdict: str
    finding: str
    work: tuple[tuple[str, str], ...]


ROOT_2PI, ROOT_2 = sp.symbols(r"\sqrt{2\pi} \sqrt{2}", positive=True)
"""Roots as one writes them, which sympy would take apart: for printing."""


def _joined(product: Any) -> Any:
    """Combine √2·√π to √(2π), √2/2 to 1/√2, and √2/(2√π) to both."""
    factors, half = set(product.args), product.as_coeff_Mul()[0].q % 2 == 0
    if sp.sqrt(2) in factors and sp.sqrt(sp.pi) in factors:
        return product / sp.sqrt(2) / sp.sqrt(sp.pi) * ROOT_2PI
    if sp.sqrt(2) in factors and half and 1 / sp.sqrt(sp.pi) in factors:
        return product * sp.sqrt(2) * sp.sqrt(sp.pi) / ROOT_2PI
    return product * sp.sqrt(2) / ROOT_2 if sp.sqrt(2) in factors and half else product


def as_written(expression: Any) -> Any:
    """Write the roots of an expression as a mathematician does, for `latex`."""
    return expression.replace(lambda part: part.is_Mul and part.as_coeff_Mul()[0].is_Rational, _joined)


def latex(expression: Any) -> str:
    """Write a sympy expression as TeX in the paper's signs."""
    text: str = sp.latex(as_written(expression), ln_notation=True, fold_short_frac=False, symbol_names={c: "c"})
    return text.replace(r"\erf", r"\operatorname{erf}")


#: verdict → (class of its colour, sign), as in the ledger
_BADGES = {FOLLOWS: ("rbp-holds", "✓"), PART: ("rbp-part", "◐"), FAILS: ("rbp-fails", "✗")}


def display(tex: str) -> str:
    """Show a displayed formula, which scrolls within itself where it is wider than a phone."""
    return f'<div class="rbp-scroll" tabindex="0"><div class="math">{mathml(tex, displayed=True)}</div></div>'


def rendered(checked: Iterable[Checked], numbers: Container[str], *, fold: str = "") -> str:
    """Typeset the statements of these numbers: verdict, equation, finding, and the lines of the check.

    fold: the summary under which all of them fold; "" leaves them in sight.
    """
    return _folded("".join(_block(item) for item in checked if item.number in numbers), fold)


def _folded(markup: str, summary: str) -> str:
    return f"<details><summary>{html.escape(summary)}</summary>{markup}</details>" if summary else markup


def _block(item: Checked) -> str:
    kind, sign = _BADGES[item.verdict]
    badge = f'<span class="rbp-verdict {kind}"><span aria-hidden="true">{sign}</span> {item.verdict}</span>'
    lines = formula_list(dict(item.work)) if len(item.work) > 1 else display(item.work[0][1])
    claimed = "" if item.number.isdigit() else f" {html.escape(item.claim)}"  # a sentence, which no equation says
    name = f"Equation ({item.number})" if item.number.isdigit() else item.number[0].upper() + item.number[1:]
    claim = f"<p><b>{html.escape(name)}.</b>{claimed} {badge}</p>"
    return (
        f'<section class="rbp-equation">{claim}'
        f"{display(item.equation.tex)}<p>{html.escape(item.finding)}</p>"
        f"<details><summary>The check</summary>{lines}</details></section>"
    )


def formula_list(formulas: Mapping[str, Any], *, fold: str = "") -> str:
    """List formulas by their names, as expressions or as TeX, one below another; folded under `fold` if given."""
    texts = {name: formula if isinstance(formula, str) else latex(formula) for name, formula in formulas.items()}
    rows = (f"<dt>{html.escape(name)}</dt><dd>{display(tex)}</dd>" for name, tex in texts.items())
    return _folded(f"<dl>{''.join(rows)}</dl>", fold)
