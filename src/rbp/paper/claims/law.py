"""Claims on the law itself, its range, its data, and what happens at large k."""

from rbp.paper.claims.ledger import Judged, Numbers, claim
from rbp.paper.claims.rules import (
    by_share,
)

LAW = "The law"


@claim(
    5,
    LAW,
    "introduction",
    "R² of the RBP law is comparable to that of cross-entropy.",
    rule="holds if the two printed R² at k = 1 differ by at most 0.01, in either direction, in nine of ten cells of Table 1; in part "
    "if in most",
    evidence="cross_entropy",
    core=True,
)
def _(n: Numbers) -> Judged:
    cells, close = n.count("cross_entropy::printed_cells"), n.count("cross_entropy::r_squared_within_001")
    at_least = n.count("cross_entropy::r_squared_comparable")
    return by_share(close / cells, "cells that differ by at most 0.01", holds=0.9), (
        f"They differ by at most 0.01 in {close} of {cells} cells; of the other {cells - close}, RBP's is higher in {at_least - close}. "
        f"The largest gap is {n.word('cross_entropy::r_squared_worst')}: "
        f"{n.number('cross_entropy::r_squared_worst_ce'):.3f} for cross-entropy, "
        f"{n.number('cross_entropy::r_squared_worst_rbp'):.3f} for RBP₁."
    )
