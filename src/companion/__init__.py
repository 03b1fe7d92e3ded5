"""Runs and shows any notebooks: parameters, chapters, pages, results, steps, build, site. Knows no paper."""
