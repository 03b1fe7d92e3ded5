"""Moved: this name goes on working for one version. Import from `rbp.evidence`."""

from collections.abc import Sequence
from pathlib import Path
from warnings import warn

from rbp.evidence import COLUMNS, KEYS, METRICS, open_source, select
from rbp.evidence import Source as Measurements
from rbp.evidence.published import agreement
from rbp.ranks.metric import TieRule

__all__ = ["COLUMNS", "KEYS", "METRICS", "Measurements", "agreement", "load", "select"]

warn("rbp.measurements has moved to rbp.evidence", DeprecationWarning, stacklevel=2)


def load(source: str | Path | Sequence[str | Path] = "published", rule: TieRule = "paper") -> Measurements:
    """`open_source`, with the measurement table read and checked at once."""
    found = open_source(source, rule)
    _ = found.table
    return found
