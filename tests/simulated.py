"""Hits of simulated documents with known laws."""

import numpy as np


def chain(rng, documents, length, hit, stay):
    """A stationary two-state chain in each document: (hits, documents, positions), each of shape (tokens,)."""
    good = np.empty((documents, length), dtype=bool)
    good[:, 0] = rng.random(documents) < hit
    back = hit * (1 - stay) / (1 - hit)  # what keeps the share of hits
    for i in range(1, length):
        good[:, i] = rng.random(documents) < np.where(good[:, i - 1], stay, back)
    return rows(good)


def varying(rng, documents, length, a, b):
    """Documents whose hit rate is drawn from Beta(a, b)."""
    return rows(rng.random((documents, length)) < rng.beta(a, b, documents)[:, None])


def rows(good):
    documents, length = good.shape
    return good.ravel(), np.repeat(np.arange(documents), length), np.tile(np.arange(length), documents)
