"""Open every source of measurements: published values, the ladder's, a file's, a rank store's."""

from rbp.measurements.sources import Source, open_source
from rbp.measurements.table import COLUMNS, KEYS, select

__all__ = ["COLUMNS", "KEYS", "Source", "open_source", "select"]
