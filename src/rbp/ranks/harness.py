"""Ranks as the lm-evaluation-harness logs samples: one JSON object a line for each document.

These are the lines that its `--log_samples` writes for a task with `loglikelihood_rolling`, as far as ranks know them.
"""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np

from rbp.ranks.store import RankStore


def samples(store: RankStore, ks: Sequence[int] = (1, 10, 100)) -> Iterator[str]:
    """One line of JSON for each document, in their order, in the harness's own form.

    doc has the ids of the tokens that were ranked and where they stand; resps and filtered_resps are Σ ln p of these,
    as text. A metric's value is a sum and its weight: token_perplexity [Σ ln p, tokens], rbp_k [hits, tokens]. What is
    made from the text is absent, as a store holds none. The sum leaves out a document's first token, which the harness
    scores after a prefix token. Raises DataError for a damaged store.
    """
    table = store.ranks()
    rank = (table["greater"] + table["equal"]).to_numpy()
    gain = -table["nll"].to_numpy(np.float64)
    document, token, position = (table[name].to_numpy() for name in ("document", "token", "position"))
    starts = np.flatnonzero(np.diff(document, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(document)], strict=True):
        total, tokens = float(gain[start:stop].sum()), int(stop - start)
        doc = {
            "model": store.model,
            "dataset": store.dataset,
            "token_ids": token[start:stop].tolist(),
            "positions": position[start:stop].tolist(),
        }
        metrics: dict[str, list[float]] = {"token_perplexity": [total, tokens]}
        for k in ks:
            metrics[f"rbp_{k}"] = [int((rank[start:stop] <= k).sum()), tokens]
        sample = {
            "doc_id": int(document[start]),
            "doc": doc,
            "resps": [[str(total)]],
            "filtered_resps": [str(total)],
            "filter": "none",
            "metrics": list(metrics),
            "doc_hash": sha256(json.dumps(doc, indent=2, ensure_ascii=False).encode()).hexdigest(),
            **metrics,
        }
        yield json.dumps(sample, ensure_ascii=False)
