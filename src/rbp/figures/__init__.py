"""Figures: curves of measurements and fits, and the style of all."""
