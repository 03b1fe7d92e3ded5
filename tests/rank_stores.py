"""Tiny rank stores for the tests of the ladder's analysis."""

import numpy as np

from rbp.extract.store import Store, open_store


def write_store(root, model, size, greater, *, family="Ladder", dataset="wikipedia", token=0, nll=1.0, vocabulary=50):
    """A finished store of 4 documents of equal length under `root`; the first two tokens have an equal."""
    tokens = len(greater)
    equal = np.ones(tokens, dtype=np.int64)
    equal[:2] = 2
    store = Store(root / f"{model}-{dataset}")
    about = {"model": model, "dataset": dataset, "family": family, "size": size, "vocabulary": vocabulary}
    store.begin({"model": model, "dataset": dataset}, about, 1, tokens)
    columns = {
        "document": np.repeat([3, 5, 6, 9], tokens // 4),
        "position": np.tile(np.arange(1, tokens // 4 + 1), 4),
        "token": np.full(tokens, token),
        "greater": greater,
        "equal": equal,
        "nll": np.full(tokens, nll),
    }
    store.write(0, columns)
    store.finish({})
    return open_store(store.folder)
