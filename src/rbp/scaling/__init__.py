"""Scaling laws: power-law fits with intervals, offsets, comparisons of exponents, and forecasts."""

from rbp.scaling.cells import fit_table
from rbp.scaling.compare import (
    CommonExponent,
    OffsetComparison,
    PairedExponents,
    aicc,
    common_exponent,
    compare_offset,
    paired_exponents,
)
from rbp.scaling.curvature import Curvature, curvature
from rbp.scaling.forecast import Forecast, forecast
from rbp.scaling.model_sets import chains, fit_thresholds, r_squared_interval, steps
from rbp.scaling.offset import OffsetFit, fit_offset
from rbp.scaling.powerlaw import PowerLawFit, fit_power_law

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
