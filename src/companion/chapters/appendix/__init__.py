"""The analysis of each appendix, a module or a folder each."""
