"""Measure: every model on every corpus, a rank store each; what is there already and whole is left alone."""

import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from rbp.errors import DataError, ParameterError
from rbp.extraction.about import circumstances, family, quiet, warn_of_versions
from rbp.extraction.corpora import Corpus, open_corpus
from rbp.extraction.forward import Ranker
from rbp.extraction.manifest import digest
from rbp.extraction.models import (
    Dtype,
    LanguageModel,
    ModelFiles,
    find_model,
    load_model,
    load_tokenizer,
    longest_input,
    looks_at_length,
)
from rbp.extraction.progress import Progress, product_rate
from rbp.extraction.protocols import Plan, Protocol, plan
from rbp.extraction.store import Store, place
from rbp.ranking import Backend, backend_for
from rbp.ranking.problem import Rounding, ieee

log = logging.getLogger(__name__)

Vocabulary = int | Literal["all", "tokenizer"]


@dataclass(frozen=True)
class Settings:
    """How to measure.

    dtype: of weights and hidden states; device: "auto", "cpu", "cuda", "cuda:1", …; backend: of `linear_rank`;
    batch: rows at a time (None: by the device); vocabulary: the logits that count: "all", those of the
    "tokenizer"'s tokens, or the first so many; round_logits: see `linear_rank`; revision: of hub models;
    fields: of corpus files; family: the label of the models (None: the paper's family, or the model type).
    """

    dtype: Dtype = "float32"
    device: str = "auto"
    backend: Backend = "auto"
    batch: int | None = None
    vocabulary: Vocabulary = "all"
    round_logits: Rounding | None = None
    revision: str | None = None
    fields: tuple[str, ...] = ()
    family: str | None = None


class _Model:
    """A model's files, and what is loaded of them once it is needed."""

    def __init__(self, files: ModelFiles, settings: Settings, device: torch.device) -> None:
        self.files, self.settings, self.device = files, settings, device
        self.tokenizer = load_tokenizer(files)
        self.fingerprints = {"weights": files.fingerprint(), "tokenizer": files.tokenizer_fingerprint()}

    @cached_property
    def language(self) -> LanguageModel:
        why = "the default, as the authors' program" if self.settings.dtype == "float32" else "as asked for"
        own = self.files.config.get("dtype") or self.files.config.get("torch_dtype") or "unknown"
        log.info("%s: %s on %s (%s; saved as %s)", self.files.name, self.settings.dtype, self.device, why, own)
        return load_model(self.files, self.settings.dtype, self.device)

    @cached_property
    def limit(self) -> int | None:
        chosen = self.settings.vocabulary
        if chosen == "tokenizer":
            return len(self.tokenizer)
        return None if chosen == "all" else int(chosen)


def extract(
    models: Sequence[str | ModelFiles],
    corpora: Sequence[str | Corpus],
    protocol: Protocol,
    out: Path,
    settings: Settings | None = None,
    shard: tuple[int, int] | None = None,
) -> list[Path]:
    """Measure each of `models` on each of `corpora` into rank stores in the folder `out`; gives their folders.

    Both are given by name (see `find_model`, `open_corpus`), or as what these give.
    shard: (i, n) does every n-th pack, beginning with the i-th (from 1); the store is finished by whichever run
    finds that no pack is missing. What is given is looked at first: a wrong name fails before any work. Raises
    DataError and ParameterError, and leaves nothing half-written.
    """
    settings = settings or Settings()
    if shard is not None and not 1 <= shard[0] <= shard[1]:
        raise ParameterError(f"there is no shard {shard[0]} of {shard[1]}", "--shard", "Give I/N with 1 ≤ I ≤ N.")
    device = find_device(settings.device)
    found = [find_model(model, settings.revision) if isinstance(model, str) else model for model in models]
    texts = [open_corpus(corpus, settings.fields) if isinstance(corpus, str) else corpus for corpus in corpora]
    stores = []
    with quiet(), ieee(device):
        for files in found:
            model = _Model(files, settings, device)
            stores += [_measure(model, corpus, protocol, out, shard) for corpus in texts]
    return stores


def find_device(name: str) -> torch.device:
    """The device `name`; "auto" takes a GPU where there is one. Raises ParameterError if it is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
        usable = device.type in ("cpu", "cuda")
    except (RuntimeError, AssertionError):  # the latter from a PyTorch without CUDA
        usable = False
    if not usable:
        raise ParameterError(f"there is no device {name!r}", "--device", "Take --device cpu.")
    return device


def _key(model: _Model, corpus: Corpus, protocol: Protocol) -> dict[str, Any]:
    """All that determines the ranks."""
    settings = model.settings
    dtype = torch.float64 if settings.dtype == "float64" else torch.float32
    chosen = backend_for(model.device, dtype) if settings.backend == "auto" else settings.backend
    return {
        **model.fingerprints,
        "revision": model.files.revision,
        "corpus": corpus.fingerprint,
        "protocol": protocol.as_dict(),
        "dtype": settings.dtype,
        "vocabulary": model.limit,
        "round_logits": settings.round_logits,
        "backend": chosen,
        "device": model.device.type,
        "precision": "ieee",
        # what was measured of such models with padded rows is another measurement
        **({"rows": "unpadded"} if looks_at_length(model.files.config) else {}),
    }


def _measure(model: _Model, corpus: Corpus, protocol: Protocol, out: Path, shard: tuple[int, int] | None) -> Path:
    key = _key(model, corpus, protocol)
    label = f"{Path(model.files.name).name} on {corpus.name}"
    store = place(out, f"{Path(model.files.name).name}-{corpus.name}", key)
    if _finished(store, key, _labels(model, corpus)):
        log.info("%s: already measured, %s", label, store.folder)
        return store.folder
    longest = longest_input(model.files.config)
    if longest is not None and protocol.length > longest:
        what = f"the model reads {longest} tokens at most, not {protocol.length}"
        raise ParameterError(what, f"{model.files.name}, --length", f"Give --length {longest}.")
    rows = plan(corpus, model.tokenizer, protocol)
    highest = max(int(row.ids.max()) for row in rows.rows)
    if highest >= model.language.vocabulary:
        what = f"the tokenizer gives token {highest}, the model has {model.language.vocabulary}"
        raise DataError(what, model.files.name, "The tokenizer is another model's: save the right one beside it.")
    batch = model.settings.batch or (4 * torch.get_num_threads() if model.device.type == "cpu" else 32)
    ranker = Ranker(model.language, key["backend"], batch, model.limit, model.settings.round_logits)
    ranker.check(rows.rows)
    with store.lock(shard):
        try:
            _fill(store, model, ranker, rows, key, corpus, label, shard)
        except BaseException:
            if shard is None and not any((store.folder / "parts").glob("*.parquet")):
                shutil.rmtree(store.folder)
            raise
    return store.folder


def _fill(
    store: Store,
    model: _Model,
    ranker: Ranker,
    rows: Plan,
    key: dict[str, Any],
    corpus: Corpus,
    label: str,
    shard: tuple[int, int] | None,
) -> None:
    """Rank the packs that are missing."""
    if shard is None:
        store.clear()
    warn_of_versions(store)
    whole, rest = store.parts()
    for path in rest:
        if shard is None:
            log.warning("%s: %s is damaged or left over: done again", label, path.name)
            path.unlink()
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    about = {**_labels(model, corpus), **circumstances(ranker), "begun": begun}
    store.begin(key, about, rows.packs, rows.tokens)
    mine = [p for p in range(rows.packs) if shard is None or p % shard[1] == shard[0] - 1]
    missing = [pack for pack in mine if pack not in whole]
    scored = {pack: sum(len(row.scored) for row in rows.rows_of(pack)) for pack in mine}
    before = sum(scored[pack] for pack in mine if pack in whole)
    if before and missing:
        log.info("%s: %d of %d packs are there: going on", label, len(mine) - len(missing), len(mine))
    product = product_rate(model.device, getattr(torch, model.settings.dtype))
    flops = 2 * (model.language.size + ranker.outputs)
    progress = Progress(label, sum(scored.values()), before, flops, product)
    for pack in missing:
        some = rows.rows_of(pack)
        greater, equal, nll = ranker.rank(some)
        columns = {
            "document": np.concatenate([np.full(len(row.scored), row.document) for row in some]),
            "position": np.concatenate([row.start + row.scored for row in some]),
            "token": np.concatenate([row.ids[row.scored] for row in some]),
            "greater": greater,
            "equal": equal,
            "nll": nll,
        }
        store.write(pack, columns)
        progress.add(len(greater))
    if missing:
        progress.close()
    if len(store.parts()[0]) >= rows.packs:
        store.finish(
            {
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                "tokens_per_second": round(progress.tokens_per_second),
                "share_of_product": round(progress.share_of_product, 3),
                "halvings": ranker.halvings,
            }
        )


def _finished(store: Store, key: dict[str, Any], labels: dict[str, Any]) -> bool:
    """Whether nothing is to be done; a store that lacks only its last line, its label or its checksum gets it.

    Raises DataError for a folder whose manifest says that it is another measurement's.
    """
    try:
        manifest = store.manifest
    except DataError:
        return False
    if manifest["digest"] != digest(key):
        what = "the folder holds another measurement than its name says"
        raise DataError(what, str(store.folder), "Give it its own name back, or move it away.")
    whole, rest = store.parts()
    if rest or len(whole) < manifest["packs"]:
        return False
    if manifest["complete"] and manifest["about"]["family"] == labels["family"] and "checksum" in manifest:
        return True
    with store.lock():
        store.finish({"family": labels["family"]})
    return True


def _labels(model: _Model, corpus: Corpus) -> dict[str, Any]:
    return {
        "model": model.files.name,
        "dataset": corpus.name,
        "family": model.settings.family or family(model.files),
    }
