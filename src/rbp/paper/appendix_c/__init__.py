"""Appendix C of the paper by computer algebra: equations 10 to 26, each built, and derived or refuted."""

from functools import cache

import pandas as pd

from rbp.paper.appendix_c import approximate, exact, orders
from rbp.paper.appendix_c.notation import Checked


@cache
def all_checked() -> tuple[Checked, ...]:
    """Every equation and sentence checked, in the appendix's order; it takes a few seconds, once."""
    return (*exact.checks(), *approximate.checks(), *orders.checks())


def as_table(checked: tuple[Checked, ...]) -> pd.DataFrame:
    """equation, claim, verdict, by, finding: one row for each."""
    rows = [(one.number, one.claim, one.verdict, one.by, one.finding) for one in checked]
    return pd.DataFrame(rows, columns=["equation", "claim", "verdict", "by", "finding"])
