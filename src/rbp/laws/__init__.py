"""Arrays in, results out: laws, comparisons, counting, documents, windows, rank distributions. No paper, no torch."""
