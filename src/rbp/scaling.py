"""Moved: this name goes on working for one version. Import from `rbp.stats`."""

from warnings import warn

from rbp.stats.cells import fit_table
from rbp.stats.compare import (
    CommonExponent,
    OffsetComparison,
    PairedExponents,
    aicc,
    common_exponent,
    compare_offset,
    paired_exponents,
)
from rbp.stats.forecast import Forecast, forecast
from rbp.stats.offset_law import OffsetFit, fit_offset
from rbp.stats.power_law import Curvature, PowerLawFit, curvature, fit_power_law
from rbp.stats.subsets import chains, fit_thresholds, r_squared_interval, steps

__all__ = [
    "CommonExponent",
    "Curvature",
    "Forecast",
    "OffsetComparison",
    "OffsetFit",
    "PairedExponents",
    "PowerLawFit",
    "aicc",
    "chains",
    "common_exponent",
    "compare_offset",
    "curvature",
    "fit_offset",
    "fit_power_law",
    "fit_table",
    "fit_thresholds",
    "forecast",
    "paired_exponents",
    "r_squared_interval",
    "steps",
]

warn("rbp.scaling has moved to rbp.stats", DeprecationWarning, stacklevel=2)
