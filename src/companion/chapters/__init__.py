"""The analysis of each chapter, a module each: what the paper claims and what we find."""
