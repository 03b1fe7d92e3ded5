"""Appendix C of the paper by computer algebra: equations 10 to 26, each built, and derived or refuted.

Letters and equation numbers are those of the final version. `symbols` holds the notation; `exact` equations 10 to
17, `approximate` 18 to 21 and the Euler–Maclaurin formula behind them, `orders` 22 to 26 and the earlier version's
argument, `paths` what is left along each path of (μ, σ); `sums` computes the exact sums in high precision.
"""

from rbp.derivation.equations import FAILS, FOLLOWS, PART, Checked, Equation
from rbp.derivation.ledger import all_checked, as_table

__all__ = ["FAILS", "FOLLOWS", "PART", "Checked", "Equation", "all_checked", "as_table"]
