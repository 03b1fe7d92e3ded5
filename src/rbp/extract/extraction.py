"""Measure every model on every corpus into a rank store each; whole stores are left alone."""

import logging
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from rbp import __version__, registry
from rbp.choices import BYTES, Settings, check_shard
from rbp.errors import DataError, ParameterError
from rbp.extract.forward import Ranker, default_batch
from rbp.extract.packs import answers_alike, prepare_store, rank_again, rank_missing_packs, verify_new_packs
from rbp.extract.plan import (
    ROWS,
    Cost,
    cpu_memory,
    gpu_memory,
    last_rate,
    operations,
    read_config,
    size_of,
)
from rbp.extract.verify import SHARE, Stored, choose_sample, wrong_ranks_error
from rbp.fingerprint import must_be_unchanged
from rbp.kernel import backend_for, compiling_pays
from rbp.kernel.problem import ieee
from rbp.models.devices import device_of, find_device, limits, must_be_installed
from rbp.models.find import ModelFiles, find_model
from rbp.models.identity import untouched
from rbp.models.load import LanguageModel, Loaded, load_model, load_tokenizer, looks_at_length
from rbp.models.tokenizers import without_token
from rbp.models.training import training_of
from rbp.names import split_names
from rbp.processes import Task, Tell, run_tasks
from rbp.store import RankStore, SampleCheck, Store, find_place, measurement_digest
from rbp.texts.corpora import STDIN, Corpus, open_corpus
from rbp.texts.protocol import Protocol, RowPlan, added_tokens, longest_input, opening_entry, plan_rows

log = logging.getLogger(__name__)


def family_name(files: ModelFiles | Loaded) -> str:
    """Return the name that an installed package gives the model's family, else the model type."""
    entry = registry.known_models().get(files.name)
    return entry["family"] if entry else str(files.config.get("model_type", "unknown"))


def circumstances(ranker: Ranker) -> dict[str, Any]:
    """Return the size of the model, how it was run, on what, and with which versions."""
    language = ranker.language
    cuda = language.device.type == "cuda"
    packages = ("torch", "transformers", "tokenizers", "pyarrow")
    return {
        "size": language.size,
        "vocabulary": ranker.vocabulary or language.vocabulary,
        "head": "one matrix" if ranker.head is not None else "the model's own logits",
        "logits": ranker.rounding_of_logits,
        "rows": "padded" if ranker.padded else "unpadded",
        "versions": {"rbp": __version__, "python": platform.python_version(), **{p: version(p) for p in packages}},
        "device": torch.cuda.get_device_name(language.device) if cuda else platform.machine(),
        **({"places": list(language.places)} if language.places else {}),
        "threads": torch.get_num_threads(),
        "batch": ranker.batch,
    }


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress transformers' progress bars and advice."""
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


class Opened:
    """A model's files, and what is loaded of them once it is needed."""

    def __init__(self, files: ModelFiles | Loaded, settings: Settings, device: torch.device) -> None:
        self.files, self.settings, self.device = files, settings, device
        self.training = training_of(files)
        self.marks = files.marks()
        self.tokenizer = load_tokenizer(files)
        tokenizer = files.tokenizer_fingerprint(self.tokenizer)
        self.fingerprints = {"weights": files.fingerprint(), "tokenizer": tokenizer}

    @cached_property
    def language(self) -> LanguageModel:
        """Load the model. Raises DataError if a file is no longer the one whose fingerprint was taken."""
        loaded = self._load()
        must_be_unchanged(self.marks, self.files.marks())
        return loaded

    def must_be_as_loaded(self) -> None:
        """Raise DataError if a file was written into after it was loaded: weights on the CPU may be mapped from it.

        A file that was replaced is left aside: the old one exists as long as it is in use.
        """
        now = {path: marks for path, marks in self.files.marks().items() if marks[-1] == self.marks[path][-1]}
        must_be_unchanged({path: self.marks[path][:2] for path in now}, {path: now[path][:2] for path in now})

    def _load(self) -> LanguageModel:
        why = "the default, as the authors' program" if self.settings.dtype == "float32" else "as asked for"
        dtype = self.files.config.get("dtype") or self.files.config.get("torch_dtype") or "unknown"
        saved_as = self.files.quantization or dtype
        log.info("%s: %s on %s (%s; saved as %s)", self.files.name, self.settings.dtype, self.device, why, saved_as)
        if self.settings.device != "spread" or isinstance(self.files, Loaded):
            return load_model(self.files, self.settings.dtype, self.device)
        size = size_of(read_config(self.files.folder), self.files.name)
        head = size.head * BYTES[self.settings.dtype]
        loaded = load_model(self.files, self.settings.dtype, self.device, limits(head))
        log.info("%s: its parts lie on %s", self.files.name, ", ".join(loaded.places) or loaded.device)
        return loaded

    @cached_property
    def limit(self) -> int | None:
        """Return how many logits count; None for all."""
        return _limit(self.settings, self.tokenizer)


def _limit(settings: Settings, tokenizer: Any) -> int | None:
    chosen = settings.vocabulary
    if chosen == "tokenizer":
        last: int = max(tokenizer.get_vocab().values())
        return last + 1
    return None if chosen == "all" else int(chosen)


def extract(
    models: Sequence[str | ModelFiles | Loaded],
    corpora: Sequence[str | Corpus],
    protocol: Protocol,
    out: Path,
    settings: Settings | None = None,
    shard: tuple[int, int] | None = None,
) -> list[Path]:
    """Measure each of `models` on each of `corpora` into rank stores in the folder `out`; gives their folders.

    Both are given by name (see `find_model`, `open_corpus`), or as what these give; a model in memory is `Loaded`, and
    ranked in its own dtype, on its own device.
    shard: (i, n) does every n-th pack, beginning with the i-th (from 1); the store is finished by whichever run
    finds that no pack is missing. What is given is looked at first: a wrong name fails before any work. Raises
    DataError and ParameterError, and leaves nothing half-written.
    """
    settings = settings or Settings()
    if shard is not None:
        check_shard(shard)
    device, model_files, texts = _resolve_inputs(models, corpora, settings, protocol)
    stores = []
    for files in model_files:
        own_settings, own_device = settings, device
        if isinstance(files, Loaded):
            own_settings, own_device = replace(settings, dtype=files.dtype), device_of(files.model)
        with quiet(), ieee(own_device), untouched(files.model) if isinstance(files, Loaded) else nullcontext():
            model = Opened(files, own_settings, own_device)
            stores += [_measure(model, corpus, protocol, out, shard) for corpus in texts]
    return stores


def planned(
    models: Sequence[str | ModelFiles],
    corpora: Sequence[str | Corpus],
    protocol: Protocol,
    out: Path,
    settings: Settings,
) -> list[Cost]:
    """Estimate what `extract` would cost on one device from nothing: no weights are loaded, nothing is ranked.

    out: the folder of the stores, of which the model's last one tells the time. Raises what `extract` raises for what
    can be seen by then.
    """
    device, model_files, texts = _resolve_inputs(models, corpora, settings, protocol)
    costs = []
    for files in model_files:
        if isinstance(files, Loaded):
            raise ParameterError("a model in memory has no plan", files.name, "Give its folder.")
        with quiet():
            tokenizer = load_tokenizer(files)
            folder = files.base.folder if files.base else files.folder
            config = files.contents.config if files.gguf else read_config(folder)
            size = size_of(config, files.name)
            if device.type == "cpu":
                memory = cpu_memory(size, settings.dtype, protocol.length, torch.get_num_threads())
            else:
                memory = gpu_memory(size, settings.dtype, protocol.length, settings.batch or ROWS)
            rate = last_rate(out, files.name, settings.dtype, device.type)
            for corpus in texts:
                rows = _rows(files, tokenizer, corpus, protocol)
                _must_know(rows, files.name, size.vocabulary)
                outputs = _limit(settings, tokenizer) or size.vocabulary
                flops = operations(size, rows.tokens_read, rows.tokens, outputs)
                names, counts = (Path(files.name).name, corpus.name), (rows.tokens_read, rows.tokens)
                costs.append(Cost(*names, size, *counts, flops, memory, rows.tokens / rate if rate else None))
    return costs


def _resolve_inputs(
    models: Sequence[str | ModelFiles | Loaded],
    corpora: Sequence[str | Corpus],
    settings: Settings,
    protocol: Protocol,
) -> tuple[torch.device, list[ModelFiles | Loaded], list[Corpus]]:
    """Find the device, the models' files and the texts. Raises DataError and ParameterError for what is not right."""
    if spread := settings.device == "spread":
        must_be_installed()
    device = find_device("auto" if spread else settings.device)
    model_files = [find_model(model) if isinstance(model, str) else model for model in models]
    for files in model_files:
        if spread and isinstance(files, ModelFiles) and (files.base or files.gguf):
            fault = f"{'an adapter' if files.base else 'a GGUF file'} is read on one device"
            remedy = "Save the model as safetensors, and give that."
            raise ParameterError(fault, f"{files.name}, --device spread", remedy)
        training_of(files)  # which refuses what contradicts itself
    texts = [
        open_corpus(corpus, settings.fields, protocol.tokens is not None, settings.prompt)
        if isinstance(corpus, str)
        else corpus
        for corpus in corpora
    ]
    return device, model_files, texts


def _key(model: Opened, corpus: Corpus, protocol: Protocol) -> dict[str, Any]:
    """Return all that determines the ranks."""
    settings = model.settings
    chosen = (
        backend_for(model.device, getattr(torch, settings.dtype)) if settings.backend == "auto" else settings.backend
    )
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
        # measured with padded rows, or by a model that had read others, it is another measurement
        **({"rows": "fresh"} if looks_at_length(model.files.config) else {}),
        # of a commit on the hub this says nothing more
        **({"checkpoint": model.files.checkpoint} if model.files.checkpoint and not model.files.revision else {}),
        # where they were scored as text, too
        **({"added": added} if (added := added_tokens(model.tokenizer)) else {}),
        **opening_entry(model.tokenizer, protocol.bos),
    }


def _measure(model: Opened, corpus: Corpus, protocol: Protocol, out: Path, shard: tuple[int, int] | None) -> Path:
    key = _key(model, corpus, protocol)
    label, name = f"{_short_name(model.files)} on {corpus.name}", f"{_short_name(model.files)}-{corpus.name}"
    store = find_place(out, name, key)
    begun = bool(store.parts()[0])
    if not (begun and isinstance(model.files, Loaded)) and _finished(store, key, _labels(model, corpus)):
        log.info("%s: already measured, %s", label, store.folder)
        return store.folder
    rows = _rows(model.files, model.tokenizer, corpus, protocol)
    _must_know(rows, model.files.name, model.language.vocabulary)
    batch = model.settings.batch or default_batch(model.device)
    # of the whole measurement, so that all shards and every run of them do the same
    compiled = compiling_pays(rows.tokens * (model.limit or model.language.vocabulary))
    ranker = Ranker(model.language, key["backend"], batch, model.limit, model.settings.round_logits, compiled=compiled)
    if begun and isinstance(model.files, Loaded):
        key, store = _own_place(out, name, key, ranker, rows)
        if _finished(store, key, _labels(model, corpus)):
            log.info("%s: already measured, %s", label, store.folder)
            return store.folder
    ranker.check(rows.rows)
    with store.lock(shard):
        try:
            packs = [pack for pack in range(rows.packs) if shard is None or pack % shard[1] == shard[0] - 1]
            prepare_store(store, ranker, label, packs, all_packs=shard is None)
            store.begin(key, _about(model, corpus, ranker, rows), rows.packs, rows.tokens)
            speed = rank_missing_packs(store, ranker, rows, packs, label, model.must_be_as_loaded)
            how = {"tokens_per_second": speed, "halvings": ranker.halvings}
            how |= verify_new_packs(store, ranker, rows, packs, shard)
            if store.checked() is not None:
                store.finish({"finished": _now(), **how})
        except BaseException:
            if shard is None and not any((store.folder / "parts").glob("*.parquet")):
                shutil.rmtree(store.folder)
            raise
    return store.folder


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _about(model: Opened, corpus: Corpus, ranker: Ranker, rows: RowPlan) -> dict[str, Any]:
    """Return a manifest's notes on a measurement: labels, circumstances, what was read."""
    notes = {**_labels(model, corpus), **circumstances(ranker), "begun": _now(), "not_scored": rows.not_scored}
    if rows.read is not None:
        notes["characters"] = {"read": rows.read[0], "of": rows.read[1]}
    if rows.bytes is not None:
        notes["bytes"] = rows.bytes
    if rows.documents[0] < rows.documents[1]:
        notes["documents"] = {"scored": rows.documents[0], "read": rows.documents[1]}
    if unused := without_token(model.tokenizer, notes["vocabulary"]):
        notes["without_token"] = unused
    if isinstance(model.files, ModelFiles) and model.files.gguf:
        notes |= {"file": model.files.gguf.name, "quantization": model.files.quantization}
    return notes


def write_ranks(
    model: Opened, ranker: Ranker, text: Corpus, reading: dict[str, Any], columns: dict[str, Any], out: Path
) -> Path:
    """Write ranks of a text that another program read as a rank store below `out`; return its folder.

    reading: how it was read, as `Protocol.as_dict`; columns: those of a store, for all tokens. What a store of the same
    measurement holds is replaced.
    """
    language = ranker.language
    key = {
        **model.fingerprints,
        "corpus": text.fingerprint,
        "protocol": reading,
        "dtype": language.dtype,
        "backend": ranker.backend,
        "device": language.device.type,
    }
    store = find_place(out, f"{_short_name(model.files)}-{text.name}", key)
    store.write_whole(key, {**_labels(model, text), **circumstances(ranker)}, columns)
    return store.folder


def _short_name(files: ModelFiles | Loaded) -> str:
    """Return a model's name without its owner's or its folder's, with the checkpoint after it."""
    return Path(files.name).name + (f"@{files.checkpoint}" if files.checkpoint else "")


def _own_place(
    out: Path, name: str, key: dict[str, Any], ranker: Ranker, rows: RowPlan
) -> tuple[dict[str, Any], Store]:
    """Find the store, and its key, of a model in memory: of those with its digest, the one whose ranks it reproduces.

    A digest covers weights and configuration, but not the code of a model, so its ranks are compared.
    """
    for ordinal in count(1):
        key = key | ({"ordinal": ordinal} if ordinal > 1 else {})
        store = find_place(out, name, key)
        if not store.parts()[0] or answers_alike(store, ranker, rows):
            return key, store
        log.warning("%s: its ranks are not the given model's, which gets a store of its own", store.folder)
    raise AssertionError("never reached")


def _rows(files: ModelFiles | Loaded, tokenizer: Any, corpus: Corpus, protocol: Protocol) -> RowPlan:
    longest = longest_input(files.config)
    if longest is not None and protocol.length > longest:
        fault = f"the model reads {longest} tokens at most, not {protocol.length}"
        raise ParameterError(fault, f"{files.name}, --length", f"Give --length {longest}.")
    return plan_rows(corpus, tokenizer, protocol)


def _must_know(rows: RowPlan, name: str, vocabulary: int) -> None:
    """Raise DataError unless the model has all tokens of the rows."""
    highest = max(int(row.ids.max()) for row in rows.rows)
    if highest >= vocabulary:
        fault = f"the tokenizer gives token {highest}, the model has {vocabulary}"
        raise DataError(fault, name, "The tokenizer is another model's: save the right one beside it.")


def verify_store(
    store: RankStore,
    model: str,
    corpora: Sequence[str] = (),
    share: float = SHARE,
    seed: str | None = None,
    tokenizer: str | None = None,
) -> tuple[SampleCheck, int]:
    """Rank a sample of a finished store's rows again, by its own model: what was found, of how many rows.

    corpora: among which its text is; none: it goes by the name of its data set. share: of the tokens, at least; seed:
    of the draw, the store's digest if None; tokenizer: as for `find_model`. Raises DataError if a rank is not that of
    the model's own logits, and for a model or corpora that are not the store's.
    """
    key, where = store.manifest["key"], str(store.folder)
    if "weights" not in key:
        fault = f"{store.model} is not a model that this command can load"
        raise DataError(fault, where, "The program that ranked it checked a sample itself.")
    settings = Settings(dtype=key["dtype"], vocabulary=key["vocabulary"] or "all", round_logits=key["round_logits"])
    device = find_device(settings.device)
    with quiet(), ieee(device):
        revision = key["revision"] or store.training.revision
        loaded = Opened(find_model(model, revision, tokenizer), settings, device)
        if loaded.fingerprints["weights"] != key["weights"]:  # of the tokenizer, its tokens are compared
            fault = f"{model} has other weights than the store was made of"
            raise DataError(fault, where, f"Give the same model; the store names {store.model}.")
        ranked = key["corpus"]
        fields = {} if "sha256" not in ranked else {"fields": ranked["fields"] or (), "prompt": ranked.get("prompt")}
        texts = [open_corpus(name, **fields) for name in corpora or [store.dataset]]
        corpus = next((text for text in texts if text.fingerprint == key["corpus"]), None)
        if corpus is None:
            fault = f"{', '.join(text.name for text in texts)} is not the text that was ranked, or not as it was"
            raise DataError(fault, where, "Give it by --corpus, with the same fields.")
        rows = plan_rows(corpus, loaded.tokenizer, Protocol(**key["protocol"])).rows
        sample = [rows[i] for i in choose_sample(rows, seed or store.manifest["digest"], share)]
        columns = {str(name): column.to_numpy() for name, column in store.ranks().drop(columns="top").items()}
        exact = "nll" not in store.manifest["about"]  # which says how a shipped store's are rounded
        ranker = Ranker(loaded.language, "reference", 1, loaded.limit, settings.round_logits, compiled=False)
        ranker.check(sample)
        answers = list(rank_again(ranker, sample, Stored(columns, where), elsewhere=True, cross_entropies=exact))
    sampled = sum((check for check, _ in answers), SampleCheck())
    if wrong := [token for _, some in answers for token in some]:
        raise wrong_ranks_error(wrong, sampled, where)
    return sampled, len(rows)


def _finished(store: Store, key: dict[str, Any], labels: dict[str, Any]) -> bool:
    """Return whether nothing is left to do; a store that lacks only its last line or its label gets it.

    Raises DataError for a folder whose manifest says that it is another measurement's.
    """
    try:
        manifest = store.manifest
    except DataError:
        return False
    if manifest["digest"] != measurement_digest(key):
        fault = "the folder holds another measurement than its name says"
        raise DataError(fault, str(store.folder), "Give it its own name back, or move it away.")
    parts, rest = store.parts()
    if rest or len(parts) < manifest["packs"]:
        return False
    if not manifest["complete"] and store.checked() is None:
        return False
    notes = manifest["about"]
    named = [(record["model"], record.get("revision", labels.get("revision"))) for record in (notes, labels)]
    if named[0] != named[1]:  # the same weights, which have their first name
        labels = {"family": labels["family"]}
    new = {name: value for name, value in labels.items() if name != "dataset"}  # and so has the same text
    if manifest["complete"] and new.items() <= notes.items():
        return True
    with store.lock():
        store.finish(new)
    return True


def _labels(model: Opened, corpus: Corpus) -> dict[str, Any]:
    return {
        "model": model.files.name,
        "dataset": corpus.name,
        "family": model.settings.family or family_name(model.files),
        **model.training.known,
    }


def gpus() -> list[str]:
    """List the GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    return split_names(listed)[:count] if listed else [str(i) for i in range(count)]


def extract_on_gpus(
    models: Sequence[str | ModelFiles],
    corpora: Sequence[str],
    protocol: Protocol,
    out: Path,
    settings: Settings,
    gpus: Sequence[str],
) -> None:
    """Run `extract`, a shard in a process of its own for each of `gpus`, as `CUDA_VISIBLE_DEVICES` names them.

    If one fails, the others finish what they do: nothing of it is lost. Raises DataError then.
    """
    # what is missing is downloaded once, before the processes start
    model_files = [find_model(model) if isinstance(model, str) else model for model in models]
    for files in model_files:  # hashed once, not by every process
        files.fingerprint()
    # standard input can be read by this process alone
    partly = protocol.tokens is not None
    opened = [(name, open_corpus(name, settings.fields, partly, settings.prompt)) for name in corpora]
    texts = [corpus if name == STDIN else name for name, corpus in opened]
    every = range(1, len(gpus) + 1)
    shared = model_files, texts, protocol, out, settings
    todo = [Task(f"shard {i} of {len(gpus)}", _shard, (*shared, (i, len(gpus)), gpus[i - 1])) for i in every]
    for name, error in run_tasks(todo, len(gpus), lambda name, line: None).items():
        raise DataError(f"{name} failed: {str(error).splitlines()[0]}", None, "Correct it, and run again to continue.")


def _shard(tell: Tell, *arguments: Any) -> None:
    *inputs, gpu = arguments
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # CUDA reads it when it is first used
    say_on_stderr()
    extract(*inputs)


def say_on_stderr() -> None:
    """Print what extraction says on the way."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("rbp").setLevel(logging.INFO)
