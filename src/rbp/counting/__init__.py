"""What follows from counting: a share is hits/N, so it tells N, and it is known to its binomial error only."""
