"""Small rank stores whose ranks are given."""

import numpy as np

from rbp.store import Store, open_store


def make_store(folder, greater, lengths, *, names=None, token=None, equal=1, nll=1.0, key=None, **about):
    """A finished rank store: `greater` for each token, documents of `lengths` tokens, numbered from 0 or as in `names`.

    token: of every place; by default they differ. key: what its key has besides model and dataset.
    """
    about = {"model": "toy/one", "dataset": "wikipedia", "family": "Toy", "size": 1000, "vocabulary": 100, **about}
    documents = np.repeat(np.arange(len(lengths)) if names is None else names, lengths)
    positions = np.concatenate([np.arange(1, length + 1) for length in lengths])
    tokens = len(documents)
    columns = {
        "document": documents,
        "position": positions,
        "token": np.arange(tokens) % about["vocabulary"] if token is None else np.full(tokens, token),
        "greater": np.asarray(greater),
        "equal": np.full(tokens, equal),
        "nll": np.full(tokens, nll, dtype="float32"),
    }
    store = Store(folder)
    store.begin({"model": about["model"], "dataset": about["dataset"], **(key or {})}, about, 1, tokens)
    store.write(0, columns)
    store.finish({})
    return open_store(folder)


def write_store(root, model, size, greater, *, family="Ladder", dataset="wikipedia", token=0, vocabulary=50, **more):
    """A store of 4 documents of equal length, one token each, under `root`; the first two places have an equal."""
    about = {"model": model, "dataset": dataset, "family": family, "size": size, "vocabulary": vocabulary}
    tokens = token + np.arange(len(greater)) // (len(greater) // 4)
    places = {"names": [3, 5, 6, 9], "token": tokens, "equal": np.where(np.arange(len(greater)) < 2, 2, 1)}
    return make_store(root / f"{model}-{dataset}", greater, [len(greater) // 4] * 4, **about, **places, **more)
