"""What the paper claims and what we find: one module for the analysis of each chapter."""
