"""Rank or cross-entropy? Models at equal cross-entropy, their exponents, and rank and probability token by token."""
