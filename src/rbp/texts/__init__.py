"""Texts: corpora, and the protocol that says which tokens are scored, in what context."""
