"""Small rank stores whose ranks are given."""

import numpy as np

from rbp.extract.store import Store, open_store


def make_store(
    folder,
    greater,
    lengths,
    *,
    model="toy/one",
    dataset="wikipedia",
    size=1000,
    vocabulary=100,
    nll=1.0,
    key=None,
    **training,
):
    """A finished rank store without ties: `greater` for each token, documents of `lengths` tokens.

    key: what its key has besides model and dataset; training: what is known of it.
    """
    documents = np.repeat(np.arange(len(lengths)), lengths)
    positions = np.concatenate([np.arange(1, length + 1) for length in lengths])
    tokens = len(documents)
    columns = {
        "document": documents,
        "position": positions,
        "token": np.arange(tokens) % vocabulary,
        "greater": np.asarray(greater),
        "equal": np.ones(tokens, dtype=int),
        "nll": np.full(tokens, nll, dtype="float32"),
    }
    about = {"model": model, "dataset": dataset, "family": "Toy", "size": size, "vocabulary": vocabulary}
    about |= training
    store = Store(folder)
    store.begin({"model": model, "dataset": dataset, **(key or {})}, about, 1, tokens)
    store.write(0, columns)
    store.finish({})
    return open_store(folder)
