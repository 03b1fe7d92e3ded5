"""Formulas as MathML, which browsers set by themselves: no script is loaded for them, and they can be read out."""

from math_core import LatexToMathML

_CONVERTER = LatexToMathML()


def mathml(tex: str, displayed: bool = False) -> str:
    """Convert a formula in TeX to MathML. Raises math_core.LatexError for what it cannot read."""
    return _CONVERTER.convert_with_local_state(tex.strip(), displaystyle=displayed)
