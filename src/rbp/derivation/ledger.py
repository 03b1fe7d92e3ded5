"""All checks of appendix C in the order of its equations, and as a table."""

from functools import cache

import pandas as pd

from rbp.derivation import approximate, exact, orders
from rbp.derivation.equations import Checked


@cache
def all_checked() -> tuple[Checked, ...]:
    """Every equation and sentence checked, in the appendix's order; it takes a few seconds, once."""
    return (*exact.checks(), *approximate.checks(), *orders.checks())


def as_table(checked: tuple[Checked, ...]) -> pd.DataFrame:
    """equation, claim, verdict, by, finding: one row for each."""
    rows = [(one.number, one.claim, one.verdict, one.by, one.finding) for one in checked]
    return pd.DataFrame(rows, columns=["equation", "claim", "verdict", "by", "finding"])
