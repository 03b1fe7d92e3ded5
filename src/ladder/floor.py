"""Count n-grams of every order in what the families read at their largest budget, and rank by them: the floor.

Nothing is kept of such a model but its record (training/NAME/run.json) and its ranks, in the formats of
`ladder.aggregates`: counting again takes seconds. Of the highest order each token's rank is kept.
"""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import numpy as np

from ladder import aggregates, ngrams
from ladder.making import PREDICTIONS, Making
from ladder.measuring import Measured
from ladder.ngrams import ORDERS
from ladder.ranking import read_corpus, windows
from ladder.text import read_tokenizer
from ladder.workspace import ABOUT
from rbp.errors import ParameterError
from rbp.extract.corpora import Corpus
from rbp.extract.entropies import TEMPERATURES, write_entropies
from rbp.extract.protocol import RowPlan, plan_rows
from rbp.extract.store import Asked, RankStore, Store, find_place, open_store, read_part
from rbp.io import canonical_json, write_json
from rbp.io import sha256 as checksum
from rbp.processes import DONE, Task, Tell

FAMILY = "ngrams"


def name(making: Making, order: int) -> str:
    """As a model is called: ngrams-5-at-8m."""
    return f"{FAMILY}-{order}-at-{making.ladders.training.budgets[-1] / 1e6:g}m"


def choose(rungs: Sequence[str]) -> list[int]:
    """The orders that are named, or all. Raises ParameterError for one that is not there."""
    for rung in rungs:
        if rung not in map(str, ORDERS):
            there = ", ".join(map(str, ORDERS))
            raise ParameterError(f"there are no n-grams of order {rung!r}", "--rungs", f"There is: {there}.")
    return [order for order in ORDERS if not rungs or str(order) in rungs]


def jobs(making: Making, orders: Sequence[int]) -> list[Task]:
    """Those orders that are not ranked yet. Raises DataError if the training tokens are not there."""
    digests = {order: _digest(making, order) for order in orders}
    return [
        Task(name(making, order), rank, (making, order))
        for order, digest in digests.items()
        if not about(making, order)
        or not aggregates.is_done(making, name(making, order), digest, ranks=_keeps_ranks(order))
    ]


def about(making: Making, order: int) -> dict[str, Any]:
    """The record of a model; {} if there is none."""
    try:
        found: dict[str, Any] = json.loads((making.place / "training" / name(making, order) / ABOUT).read_bytes())
    except (OSError, ValueError):
        return {}
    return found


def rank(told: Tell, making: Making, order: int) -> None:
    """Count the n-grams of one order, and rank all documents by them, on one thread. A job."""
    import torch

    from ladder.training import processor

    begun = datetime.now(UTC).isoformat(timespec="seconds")
    began, used = time.perf_counter(), time.process_time()
    told("counting")
    rows = rows_read(making)
    model = ngrams.count(rows, order, making.base.text.vocabulary)
    tokens = rows.shape[0] * (rows.shape[1] - 1)
    seconds = time.perf_counter() - began
    record = {
        "name": name(making, order),
        "family": FAMILY,
        "architecture": FAMILY,
        "rung": str(order),
        "seed": 0,
        "budget": making.ladders.training.budgets[-1],
        "size": model.size,
        "parameters": model.size,
        "tokens": tokens,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
        "tokens_per_second": round(tokens / seconds),
        "begun": begun,
        "predictions": checksum(PREDICTIONS) if PREDICTIONS.is_file() else "",
        "processors": [processor(torch.device("cpu"))],
        "digest": _digest(making, order),
        "checksum": _digest(making, order),  # it has no weights but what follows from the text
    }
    tokenizer, found = read_tokenizer(making.place), {}
    for domain in making.base.domains:
        told(domain.name)
        corpus = read_corpus(making.place, domain.name)
        plan = plan_rows(corpus, tokenizer, windows(making.base))
        keep = _keeps_ranks(order)
        one = found[domain.name] = ngrams.measure(model, plan.rows, TEMPERATURES if keep else ())
        if keep:
            write_entropies(_store(making, record, corpus, plan, one), one.entropy, one.document, one.tempered)
    key = aggregates.key(making, record["checksum"])
    aggregates.write(making.place / "aggregates" / record["name"], aggregates.aggregate(found), key)
    write_json(making.place / "training" / record["name"] / ABOUT, record)
    told(DONE)


def _keeps_ranks(order: int) -> bool:
    return order == ORDERS[-1]


def rows_read(making: Making) -> Any:
    """The training rows that a whole run of the largest budget reads."""
    rows = making.place.rows(making.base)
    steps = making.ladders.steps(making.base, making.ladders.training.budgets[-1])
    return rows[: steps * making.ladders.training.batch]


def _digest(making: Making, order: int) -> str:
    """All that determines a model."""
    rows = sha256(rows_read(making).tobytes()).hexdigest()
    text = {"order": order, "vocabulary": making.base.text.vocabulary, "rows": rows}
    return sha256(canonical_json(text).encode()).hexdigest()


def _store(making: Making, record: dict[str, Any], corpus: Corpus, plan: RowPlan, found: Measured) -> RankStore:
    """Write each token's rank into a store in ranks/."""
    chosen = windows(making.base)
    key = {"ngrams": record["digest"], "corpus": corpus.fingerprint, "protocol": chosen.as_dict()}
    store = find_place(making.place / "ranks", f"{record['name']}-{corpus.name}", key)
    labels = {"model": record["name"], "dataset": corpus.name, "family": FAMILY, "size": record["size"]}
    with store.lock():
        store.clear()
        store.begin(key, {**labels, "vocabulary": making.base.text.vocabulary}, 1, len(found.document))
        columns = {
            "document": found.document,
            "position": np.concatenate([row.start + row.scored for row in plan.rows]),
            "token": np.concatenate([row.ids[row.scored] for row in plan.rows]),
            "greater": found.greater,
            "equal": found.equal,
            "nll": found.nll,
        }
        store.write(0, columns)
        store.note("all", _asked_again(making, store, plan))
        store.finish({})
    return open_store(store.folder)


NEAR = 1e-9  # by so much of itself a probability may differ between two reckonings of it


def _asked_again(making: Making, store: Store, plan: RowPlan) -> dict[str, Asked]:
    """What was found when a sample of rows was ranked by dictionaries. Raises DataError if a stored rank is another."""
    from rbp.extract.verify import Stored, Wrong, choose_sample, verdict

    (path,) = store.parts()[0].values()
    ranks, asked, wrong = Stored(read_part(path), str(store.folder)), Asked(slack=NEAR), list[Wrong]()
    sample = [plan.rows[i] for i in choose_sample(plan.rows, store.manifest["digest"])]
    context = ORDERS[-1] - 1
    before = [[row.ids[max(0, at - context) : at].tolist() for at in row.scored.tolist()] for row in sample]
    vocabulary = making.base.text.vocabulary
    known = ngrams.ByDictionary(rows_read(making), ORDERS[-1], vocabulary, [each for some in before for each in some])
    for row, contexts in zip(sample, before, strict=True):
        stored = ranks.of(row)
        for i, (each, token) in enumerate(zip(contexts, row.ids[row.scored].tolist(), strict=True)):
            p = known.distribution(each)
            greater, equal, nll = int((p > p[token]).sum()), int((p == p[token]).sum()), float(-np.log(p[token]))
            was = int(stored.greater[i]), int(stored.equal[i]), float(stored.nll[i])
            surely, possibly = (p > p[token] * (1 + NEAR)).sum(), (p >= p[token] * (1 - NEAR)).sum()
            if not (surely <= was[0] and was[0] + was[1] <= possibly) or abs(nll - was[2]) > 1e-6 * (1 + nll):
                wrong.append(Wrong(row, i, was, (greater, equal, nll)))
            other = (greater, equal) != was[:2]
            asked += Asked(0, 1, int(other), abs(greater - was[0]), NEAR, abs(nll - was[2]))
        asked += Asked(rows=1)
    if wrong:
        raise verdict(wrong, asked, str(store.folder))
    return {path.name: asked}
