"""The claims ledger: what the paper claims, and what the chapters' recorded numbers say of it."""

from rbp.claims import comparisons, emergence, law, lognormal
from rbp.claims.ledger import CLAIMS, VERDICTS, Claim, Entry, Numbers, as_table, counts, judge_all, render, summary

__all__ = [
    "CLAIMS",
    "VERDICTS",
    "Claim",
    "Entry",
    "Numbers",
    "as_table",
    "comparisons",
    "counts",
    "emergence",
    "judge_all",
    "law",
    "lognormal",
    "render",
    "summary",
]
