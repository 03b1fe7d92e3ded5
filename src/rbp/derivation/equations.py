"""An equation of appendix C, and what checking it found."""

from dataclasses import dataclass, field
from typing import Any, Literal

import sympy as sp

from rbp.derivation import symbols as s

FOLLOWS, PART, FAILS = "follows", "follows under a condition", "does not follow"
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
        """Whether left = right for all μ and σ, by algebra. For "=" and for both sides of a "≈" in the same terms."""
        return s.is_zero(self.left - self.right)


@dataclass(frozen=True)
class Checked:
    """An equation or a sentence of the appendix with its verdict.

    number: the paper's; claim: what is claimed, in our words; equation: the statement checked; work: the lines of
    the check (what each is, and its TeX); verdict: FOLLOWS, PART or FAILS; by: what decided; finding: in a sentence.
    """

    number: str
    claim: str
    equation: Equation
    verdict: str
    by: str
    finding: str
    work: tuple[tuple[str, str], ...] = field(default=())


def latex(expression: Any) -> str:
    """TeX of a sympy expression in the paper's signs."""
    text: str = sp.latex(expression, ln_notation=True, fold_short_frac=False, symbol_names={s.c: "c"})
    return text.replace(r"\erf", r"\operatorname{erf}")
