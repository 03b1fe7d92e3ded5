"""Count n-grams of every order in what the families read at their largest budget, and rank by them: the floor.

Nothing is kept of such a model but its record (training/NAME/run.json) and its ranks, in the formats of
`ladder.aggregates`: counting again takes seconds. Of the highest order each token's rank is kept.
"""

import time
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
from ladder.workspace import ABOUT, read_record
from rbp.extract.corpora import Corpus
from rbp.extract.entropies import TEMPERATURES, write_entropies
from rbp.extract.protocol import RowPlan, plan_rows
from rbp.extract.store import RankStore, find_place, open_store
from rbp.io import canonical_json, write_json
from rbp.io import sha256 as checksum
from rbp.processes import DONE, Task, Tell

FAMILY = "ngrams"


def name(making: Making, order: int) -> str:
    """As a model is called: ngrams-5-at-8m."""
    return f"{FAMILY}-{order}-at-{making.ladders.training.budgets[-1] / 1e6:g}m"


def jobs(making: Making) -> list[Task]:
    """List a job for each order that is not ranked yet. Raises DataError if the training tokens are not there."""
    return [Task(name(making, order), rank, (making, order)) for order in ORDERS if not _is_done(making, order)]


def _is_done(making: Making, order: int) -> bool:
    ranked = aggregates.is_done(making, name(making, order), _digest(making, order), ranks=_keeps_ranks(order))
    return ranked and bool(about(making, order))


def about(making: Making, order: int) -> dict[str, Any]:
    """Read the record of a model; {} if there is none."""
    return read_record(making.place / "training" / name(making, order) / ABOUT)


def rank(tell: Tell, making: Making, order: int) -> None:
    """Count the n-grams of one order, and rank all documents by them, on one thread. A job."""
    import torch

    from ladder.training import processor

    begun = datetime.now(UTC).isoformat(timespec="seconds")
    began, used = time.perf_counter(), time.process_time()
    tell("counting")
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
    tokenizer, measured = read_tokenizer(making.place), {}
    for domain in making.base.domains:
        tell(domain.name)
        corpus = read_corpus(making.place, domain.name)
        plan = plan_rows(corpus, tokenizer, windows(making.base))
        keep = _keeps_ranks(order)
        one = measured[domain.name] = ngrams.measure(model, plan.rows, TEMPERATURES if keep else ())
        if keep:
            write_entropies(_store(making, record, corpus, plan, one), one.entropy, one.document, one.tempered)
    key = aggregates.key(making, record["checksum"])
    aggregates.write(making.place / "aggregates" / record["name"], aggregates.aggregate(measured), key)
    write_json(making.place / "training" / record["name"] / ABOUT, record)
    tell(DONE)


def _keeps_ranks(order: int) -> bool:
    return order == ORDERS[-1]


def rows_read(making: Making) -> Any:
    """Return the training rows that a whole run of the largest budget reads."""
    rows = making.place.rows(making.base)
    steps = making.ladders.steps(making.base, making.ladders.training.budgets[-1])
    return rows[: steps * making.ladders.training.batch]


def _digest(making: Making, order: int) -> str:
    """Return all that determines a model."""
    rows = sha256(rows_read(making).tobytes()).hexdigest()
    text = {"order": order, "vocabulary": making.base.text.vocabulary, "rows": rows}
    return sha256(canonical_json(text).encode()).hexdigest()


def _store(making: Making, record: dict[str, Any], corpus: Corpus, plan: RowPlan, measured: Measured) -> RankStore:
    """Write each token's rank into a store in ranks/."""
    chosen = windows(making.base)
    key = {"ngrams": record["digest"], "corpus": corpus.fingerprint, "protocol": chosen.as_dict()}
    store = find_place(making.place / "ranks", f"{record['name']}-{corpus.name}", key)
    labels = {"model": record["name"], "dataset": corpus.name, "family": FAMILY, "size": record["size"]}
    with store.lock():
        store.clear()
        store.begin(key, {**labels, "vocabulary": making.base.text.vocabulary}, 1, len(measured.document))
        columns = {
            "document": measured.document,
            "position": np.concatenate([row.start + row.scored for row in plan.rows]),
            "token": np.concatenate([row.ids[row.scored] for row in plan.rows]),
            "greater": measured.greater,
            "equal": measured.equal,
            "nll": measured.nll,
        }
        store.write(0, columns)
        store.finish({})
    return open_store(store.folder)
