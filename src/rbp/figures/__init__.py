"""Figures: their style, their words, and panels of curves."""
