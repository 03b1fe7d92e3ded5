"""Moved: this name goes on working for one version. Import from `rbp.evidence.sources`."""

from warnings import warn

from rbp.evidence.published import agreement
from rbp.evidence.sources import COLUMNS, KEYS, METRICS, Measurements, load, select

__all__ = [
    "COLUMNS",
    "KEYS",
    "METRICS",
    "Measurements",
    "agreement",
    "load",
    "select",
]

warn("rbp.measurements has moved to rbp.evidence.sources", DeprecationWarning, stacklevel=2)
