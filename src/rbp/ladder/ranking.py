"""Rank the documents of every domain by every finished model, and rebuild those documents from the ranks."""

import csv
import gzip
import json
import shutil
import zlib
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rbp.core import provenance
from rbp.core.errors import DataError, ParameterError
from rbp.core.files import write_json
from rbp.core.paths import LADDER
from rbp.core.processes import DONE, Task, Tell
from rbp.ladder.recipe import Recipe
from rbp.ladder.runs import RungSeed
from rbp.ladder.text import Document, texts_fingerprint
from rbp.ladder.workspace import Workspace, model_name
from rbp.ranks.corpora import Corpus
from rbp.ranks.entropies import TEMPERATURES, has_entropies, write_entropies
from rbp.ranks.protocols import Protocol, plan_rows
from rbp.ranks.store import RankStore, open_store, store_folders

if TYPE_CHECKING:
    from rbp.ranks.extraction import Settings
    from rbp.ranks.models import ModelFiles


def evaluation_documents(domain: str, folder: Path = LADDER) -> list[Document]:
    """The documents of a domain, in the order of the stores.

    folder: a ladder's. Raises ParameterError for a domain that has no store, DataError if a file is missing.
    """
    from tokenizers import Tokenizer

    path = folder / "documents.csv"
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            firsts = [row for row in csv.DictReader(lines) if row["domain"] == domain]
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer" / "tokenizer.json"))
    except Exception as error:  # of which tokenizers has but the plain kind
        raise DataError(f"cannot read the ladder: {error}", str(folder), REMEDY) from None
    store = _store(domain, folder)
    provenance.note(path, folder / "tokenizer" / "tokenizer.json", *store.parts)
    ranks = store.ranks()
    others = {document: tokens.tolist() for document, tokens in ranks.groupby("document")["token"]}
    found = []
    for row in firsts:
        tokens = [int(row["first"]), *others.get(int(row["document"]), [])]
        found.append(Document(row["name"], tokenizer.decode(tokens, skip_special_tokens=False)))
    return found


def evaluation_corpus(domain: str, documents: Sequence[Document]) -> Corpus:
    """The documents of a domain as `rbp.ranks.extraction.extract` takes them; named by their texts."""
    return Corpus(domain, [document.text for document in documents], {"texts": texts_fingerprint(documents)})


def open_domain(domain: str) -> Corpus:
    """The corpus "ladder/DOMAIN". Raises what `evaluation_documents` raises."""
    return evaluation_corpus(domain, evaluation_documents(domain))


REMEDY = "Make it: rbp ladder train, then rbp ladder rank; or restore it: git checkout -- data/ladder."


def _store(domain: str, folder: Path) -> RankStore:
    """One store of the domain: all hold the same tokens."""
    if not (folder / "ranks").is_dir():
        raise DataError("the ladder has no ranks", str(folder), REMEDY)
    stores = [open_store(path) for path in store_folders([folder / "ranks"])]
    for store in stores:
        if store.dataset == domain:
            return store
    there = ", ".join(sorted({store.dataset for store in stores}))
    raise ParameterError(f"the ladder has no domain {domain!r}", "domain", f"There is: {there}.")


PACK = 8192  # rows in a part of a store: few files, as a model is quick
PRECISION = "precision.json"
SAMPLE = 20_000  # tokens of the first domain whose ranks are compared between the precisions
THRESHOLDS = (1, 10, 100, 1000)


def ranking_tasks(runs: Sequence[RungSeed], place: Workspace, recipe: Recipe, domains: Sequence[str]) -> list[Task]:
    """A job for each model."""
    return [Task(which.name, rank, (place, recipe, which, tuple(domains))) for which in runs]


def windows(recipe: Recipe, tokens: int | None = None) -> Protocol:
    """Whole documents, in windows as long as the models read; at least half of one is before each token.

    (Or all that there is.) tokens: stop after so many.
    """
    return Protocol("windows", recipe.text.context, recipe.text.context // 2, tokens=tokens, pack=PACK)


def read_corpus(place: Workspace, domain: str) -> Corpus:
    """The documents of a domain that are ranked. Raises DataError if they are missing."""
    path = place / "evaluation" / f"{domain}.jsonl.gz"
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
    except (OSError, EOFError, ValueError, zlib.error):
        raise DataError("the documents cannot be read", str(path), "Make them: rbp ladder data.") from None
    return evaluation_corpus(domain, [Document(row["id"], row["text"]) for row in rows])


def rank(told: Tell, place: Workspace, recipe: Recipe, which: RungSeed, domains: Sequence[str]) -> None:
    """Rank the domains by one model, on one thread. A job."""
    import torch

    from rbp.ranks.extraction import Settings
    from rbp.ranks.models import find_model

    torch.set_num_threads(1)
    first = which.seed == which.rung.seeds[0]
    out = place / ("ranks" if first else "seeds")
    files = replace(find_model(str(place.model(*which))), name=which.name)
    settings = Settings(device="cpu", family="Ladder")
    for domain in domains:
        told(domain)
        corpus = read_corpus(place, domain)
        store = store_of(files, corpus, windows(recipe), out, settings)
        if first and not has_entropies(store.folder):
            entropies_of(files, corpus, windows(recipe), store)
    path = place.run(*which) / PRECISION
    if first and not (path.is_file() and json.loads(path.read_bytes()).get("weights") == files.fingerprint()):
        write_json(path, precision(place, recipe, which, domains[0]))
    told(DONE)


def store_of(files: "ModelFiles", corpus: Corpus, protocol: Protocol, out: Path, settings: "Settings") -> RankStore:
    """Rank a corpus by one model into a store in `out`; its stores of other weights or texts are removed."""
    from rbp.ranks.extraction import extract

    with redirect_stderr(StringIO()):  # whose progress is about one model
        (store,) = extract([files], [corpus], protocol, out, settings)
    for other in out.glob(f"{files.name}-{corpus.name}-*"):
        if other != store:
            shutil.rmtree(other)
    return open_store(store)


def entropies_of(files: "ModelFiles", corpus: Corpus, protocol: Protocol, store: RankStore) -> None:
    """Write what `rbp.ranks.entropies` keeps beside a store of the model's ranks. Raises as `write_entropies`."""
    import torch

    from rbp.ladder.measuring import measure
    from rbp.ranks.extraction import quiet
    from rbp.ranks.models import load_model, load_tokenizer

    with quiet():
        model = load_model(files, "float32", torch.device("cpu")).model
    found = measure(model, plan_rows(corpus, load_tokenizer(files), protocol).rows, TEMPERATURES)
    write_entropies(store, found.entropy, found.document, found.tempered)


def shipped_tasks(folder: Path, recipe: Recipe, rungs: Sequence[str], domains: Sequence[str]) -> list[Task]:
    """A job for each model whose weights are in a ladder's folder: see `entropies_again`.

    rungs: some of them; none: all. Raises ParameterError for a rung that the recipe does not have, and if there are no
    weights.
    """
    names = [model_name(rung, rung.seeds[0]) for rung in map(recipe.rung, rungs)]
    models = sorted(path.parent for path in (folder / "models").glob("*/model.safetensors"))
    chosen = [model for model in models if not names or model.name in names]
    if not chosen:
        what = "no weights of these rungs are there"
        raise ParameterError(what, str(folder / "models"), "Give another folder: --out.")
    return [Task(model.name, entropies_again, (folder, recipe, model.name, tuple(domains))) for model in chosen]


def entropies_again(told: Tell, folder: Path, recipe: Recipe, model: str, domains: Sequence[str]) -> None:
    """Write what lies beside a shipped model's stores, by its shipped weights on the rebuilt texts. A job."""
    import torch

    from rbp.ranks.models import find_model

    torch.set_num_threads(1)
    files = find_model(str(folder / "models" / model))
    for store in map(open_store, store_folders([folder / "ranks"])):
        if store.model == model and store.dataset in domains:
            told(store.dataset)
            corpus = evaluation_corpus(store.dataset, evaluation_documents(store.dataset, folder))
            entropies_of(files, corpus, windows(recipe), store)
    told(DONE)


def precision(place: Workspace, recipe: Recipe, which: RungSeed, domain: str) -> dict[str, Any]:
    """How the ranks of SAMPLE tokens of a domain differ between the weights as trained and as shipped.

    changed: the share of tokens whose rank differs. neg_log_rbp: by k, the change of −ln RBP_k from single to half
    precision in standard errors of the sample's −ln RBP_k (tokens taken as independent).
    """
    import torch
    from safetensors.torch import load_file

    from rbp.ranks.extraction import quiet
    from rbp.ranks.forward import Ranker
    from rbp.ranks.kernel import compiling_pays
    from rbp.ranks.metric import rank as ranks_of
    from rbp.ranks.models import find_model, load_model, load_tokenizer
    from rbp.stats.counting import neg_log_rbp_variance

    files = find_model(str(place.model(*which)))
    plan = plan_rows(read_corpus(place, domain), load_tokenizer(files), windows(recipe, SAMPLE))
    with quiet():
        language = load_model(files, "float32", torch.device("cpu"))
    ranker = partial(Ranker, language, "blocked", 8, compiled=compiling_pays(plan.tokens * language.vocabulary))
    half = ranker().rank(plan.rows)
    state = load_file(place.run(*which) / "state.safetensors")
    exact = {n.removeprefix("model."): value for n, value in state.items() if n.startswith("model.")}
    language.model.load_state_dict(exact)
    single = ranker().rank(plan.rows)
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
