"""Rank the documents of every domain by every finished model, and compare half with single precision."""

import gzip
import json
import shutil
import zlib
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rbp.errors import DataError
from rbp.extraction.corpora import Corpus
from rbp.extraction.protocols import Protocol
from rbp.files import write_json
from rbp.ladder import evaluation
from rbp.ladder.jobs import DONE, Job, Told
from rbp.ladder.place import Place
from rbp.ladder.recipe import Recipe
from rbp.ladder.runs import Which
from rbp.ladder.texts import Document

if TYPE_CHECKING:
    from rbp.extraction.models import ModelFiles
    from rbp.extraction.run import Settings

PACK = 8192  # rows in a part of a store: few files, as a model is quick
PRECISION = "precision.json"
SAMPLE = 20_000  # tokens of the first domain whose ranks are compared between the precisions
THRESHOLDS = (1, 10, 100, 1000)


def jobs(runs: Sequence[Which], place: Place, recipe: Recipe, domains: Sequence[str]) -> list[Job]:
    """A job for each model."""
    return [Job(which.name, rank, (place, recipe, which, tuple(domains))) for which in runs]


def windows(recipe: Recipe, tokens: int | None = None) -> Protocol:
    """Whole documents, in windows as long as the models read; at least half of one is before each token.

    (Or all that there is.) tokens: stop after so many.
    """
    return Protocol("windows", recipe.text.context, recipe.text.context // 2, tokens=tokens, pack=PACK)


def read_corpus(place: Place, domain: str) -> Corpus:
    """The documents of a domain that are ranked. Raises DataError if they are missing."""
    path = place / "evaluation" / f"{domain}.jsonl.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
    except (OSError, EOFError, ValueError, zlib.error):
        raise DataError("the documents cannot be read", str(path), "Make them: rbp ladder data.") from None
    return evaluation.corpus(domain, [Document(row["id"], row["text"]) for row in rows])


def rank(told: Told, place: Place, recipe: Recipe, which: Which, domains: Sequence[str]) -> None:
    """Rank the domains by one model, on one thread. A job."""
    import torch

    from rbp.extraction.models import find_model
    from rbp.extraction.run import Settings

    torch.set_num_threads(1)
    first = which.seed == which.rung.seeds[0]
    out = place / ("ranks" if first else "seeds")
    files = replace(find_model(str(place.model(*which))), name=which.name)
    settings = Settings(device="cpu", family="Ladder")
    for domain in domains:
        told(domain)
        store_of(files, read_corpus(place, domain), windows(recipe), out, settings)
    path = place.run(*which) / PRECISION
    if first and not (path.is_file() and json.loads(path.read_bytes()).get("weights") == files.fingerprint()):
        write_json(path, precision(place, recipe, which, domains[0]))
    told(DONE)


def store_of(files: "ModelFiles", corpus: Corpus, protocol: Protocol, out: Path, settings: "Settings") -> None:
    """Rank a corpus by one model into a store in `out`; its stores of other weights or texts are removed."""
    from rbp.extraction.run import extract

    with redirect_stderr(StringIO()):  # whose progress is about one model
        (store,) = extract([files], [corpus], protocol, out, settings)
    for other in out.glob(f"{files.name}-{corpus.name}-*"):
        if other != store:
            shutil.rmtree(other)


def precision(place: Place, recipe: Recipe, which: Which, domain: str) -> dict[str, Any]:
    """How the ranks of SAMPLE tokens of a domain differ between the weights as trained and as shipped.

    changed: the share of tokens whose rank differs. neg_log_rbp: by k, the change of −ln RBP_k from single to half
    precision in standard errors of the sample's −ln RBP_k (tokens taken as independent).
    """
    import torch
    from safetensors.torch import load_file

    from rbp.extraction.about import quiet
    from rbp.extraction.forward import Ranker
    from rbp.extraction.models import find_model, load_model, load_tokenizer
    from rbp.extraction.protocols import plan
    from rbp.metric import neg_log_rbp_variance
    from rbp.metric import rank as ranks_of

    files = find_model(str(place.model(*which)))
    rows = plan(read_corpus(place, domain), load_tokenizer(files), windows(recipe, SAMPLE)).rows
    with quiet():
        language = load_model(files, "float32", torch.device("cpu"))
    half = Ranker(language, "blocked", 8).rank(rows)
    state = load_file(place.run(*which) / "state.safetensors")
    exact = {n.removeprefix("model."): value for n, value in state.items() if n.startswith("model.")}
    language.model.load_state_dict(exact)
    single = Ranker(language, "blocked", 8).rank(rows)
    before, after = (np.asarray(ranks_of(each.greater, each.equal)) for each in (single, half))
    changes = {}
    for k in THRESHOLDS:
        hits, later = int((before <= k).sum()), int((after <= k).sum())
        if hits and later:
            error = float(np.sqrt(neg_log_rbp_variance(hits, len(before))))
            changes[str(k)] = round(float(np.log(hits / later)) / error, 4) if error else 0.0
    return {
        "weights": files.fingerprint(),
        "domain": domain,
        "tokens": len(before),
        "changed": round(float((before != after).mean()), 5),
        "neg_log_rbp": changes,
    }
