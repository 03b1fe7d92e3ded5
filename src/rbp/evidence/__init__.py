"""One door to every source of numbers: the published ones, the ladder's, a file's, a rank store's."""

from rbp.evidence.sources import COLUMNS, KEYS, Source, open_source, select

__all__ = ["COLUMNS", "KEYS", "Source", "open_source", "select"]
