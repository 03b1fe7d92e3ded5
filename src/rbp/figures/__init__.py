"""The figures: one style, and a module for each kind of figure."""

from rbp.figures.by_size import scaling_panels
from rbp.figures.style import FAMILIES, GRID, INK, Panels, neg_log_rbp_label

__all__ = ["FAMILIES", "GRID", "INK", "Panels", "neg_log_rbp_label", "scaling_panels"]
