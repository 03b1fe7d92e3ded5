"""Arrays in, results out: laws, comparisons, counting, clustering, windows, rank distributions. No paper, no torch."""
