"""Measure a model at every token: the rank of the truth, and −ln p."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rbp.errors import DataError
from rbp.texts.protocol import Row

BATCH, STEP = 16, 64  # rows of one width that a model reads at once; widths are multiples of this


class Measured(NamedTuple):
    """Of each scored token: its document, greater and equal (int64, see `rbp.metric`), and nll (nats)."""

    document: npt.NDArray[np.int64]
    greater: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    nll: npt.NDArray[np.float64]


def measure(model: Any, rows: Sequence[Row]) -> Measured:
    """Compute ranks by the model's logits, and −ln p, of all scored tokens in order.

    model: one of `architectures`, whose output layer is a matrix. Rows of one width are read together, padded at the
    end, which a causal model does not see. Raises DataError where a logit is NaN or infinite.
    """
    import torch

    head, columns = model.get_output_embeddings(), dict[int, tuple[npt.NDArray[Any], ...]]()
    widths = [-(-len(row.ids) // STEP) * STEP for row in rows]
    order = sorted(range(len(rows)), key=lambda i: widths[i])
    while order:
        width = widths[order[0]]
        some = [i for i in order[:BATCH] if widths[i] == width]
        order = order[len(some) :]
        ids = np.zeros((len(some), width), dtype=np.int64)
        for line, i in zip(ids, some, strict=True):
            line[: len(rows[i].ids)] = rows[i].ids
        with torch.inference_mode():
            hidden = model.base_model(input_ids=torch.from_numpy(ids), use_cache=False)[0]
            for states, i in zip(hidden, some, strict=True):  # the logits of a row stay in the cache
                scored = torch.from_numpy(rows[i].scored)
                logits = head(states[scored - 1])
                target = logits.gather(1, torch.from_numpy(rows[i].ids)[scored, None])
                greater, equal = (logits > target).sum(1), (logits == target).sum(1)
                highest = logits.amax(1, keepdim=True)
                if not logits.isfinite().all():
                    what = "a logit is NaN or infinite"
                    raise DataError(what, f"document {rows[i].document}", "Check the weights.")
                total = logits.sub_(highest).exp_().sum(1, dtype=torch.float64)
                nll = total.log() - (target - highest)[:, 0]
                columns[i] = tuple(each.numpy() for each in (greater, equal, nll))
    document = np.concatenate([np.full(len(row.scored), row.document) for row in rows])
    return Measured(document, *(np.concatenate([columns[i][n] for i in range(len(rows))]) for n in range(3)))
