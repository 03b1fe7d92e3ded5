"""What a study would cost before it runs: tokens, operations, memory, hours and disk, by stated formulas."""

import heapq
import json
import math
import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from rbp.core.errors import DataError, RbpError
from rbp.core.paths import DATA, ROOT
from rbp.ladder import TEXTS
from rbp.ranks.corpora import CORPORA, open_corpus
from rbp.ranks.cost import (
    BYTES,
    PROCESS,
    Rate,
    Size,
    config_size,
    cpu_memory,
    gpu_memory,
    measured_rate,
    operations,
    ranking_seconds,
)
from rbp.ranks.protocols import Protocol, plan_rows
from rbp.study.config import Cell, Dtype, GpuTable, ModelEntry, Study, published_models
from rbp.study.gpu import rate_of, read_gpu
from rbp.study.jobs import CellProgress, Job, progress, shards_of


def model_size(model: ModelEntry) -> Size | None:
    """The size of a model; None where neither the published table nor this machine knows it."""
    row = published_models().get(model.name)
    if row is not None:
        embedding = int(row["embedding_params"])
        return Size(
            non_embedding=int(row["non_embedding_params"]),
            total=int(row["total_params"]) + embedding,
            head=embedding,
            vocabulary=int(row["vocab_size"]),
            source="data/published/models.csv",
        )
    folder = model.folder or _cached(model)
    try:
        return config_size(folder) if folder is not None and (folder / "config.json").is_file() else None
    except DataError:  # an unknown size is all that follows here
        return None


def _cached(model: ModelEntry) -> Path | None:
    """The folder of a hub model's configuration, if it was downloaded before."""
    from huggingface_hub import errors, try_to_load_from_cache

    try:
        found = try_to_load_from_cache(model.name, "config.json", revision=model.revision)
    except errors.HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


MEASURED = ROOT / "bench" / "results" / "study-cpu.json"
_LADDER = DATA / "ladder"

# NVIDIA's data sheet of the A100 80 GB, dense, without TF32, which ranks do not use: floating-point operations a second
A100: dict[Dtype, float] = {"float64": 9.7e12, "float32": 19.5e12, "bfloat16": 312e12, "float16": 312e12}
CPU_CORE = 50e9  # the same of one CPU core: about half of what a product reaches
STORED = 5.46  # bytes of a rank store for a token: measured on 28 stores, of seven small models on four texts
STORAGE = 1e9  # bytes a second that a shared file system gives one reader: assumed


@dataclass(frozen=True)
class Rates:
    """What a plan reckons with.

    flops: a second, on one GPU, reached (measured, or the peak times the share assumed), or on the cores of a job
    (assumed); gpu: whose flops they are; measured: the date, or None for what is assumed; read: bytes of weights a
    second from storage (assumed); digest: bytes of weights a second through SHA-256, tokenize: tokens a second, write:
    ranks a second into a store, start: seconds until a job has imported what it needs (these measured, by
    bench/study.py).
    """

    flops: float
    gpu: str
    measured: str | None
    read: float
    digest: float
    tokenize: float
    write: float
    start: float


def find_rates(gpu: GpuTable, dtype: Dtype) -> Rates:
    """The rates for a GPU and a dtype: a study whose file says nothing of its GPU gets the rate of the one measured.

    Raises DataError if what was measured is malformed, or missing (but for a GPU's rate: then it is assumed).
    """
    flops, name, measured = (gpu.flops or A100[dtype]) * gpu.share, gpu.name, None
    if (run := read_gpu()) and not gpu.model_fields_set & {"name", "flops", "share"} and (rate := rate_of(run, dtype)):
        flops, name, measured = rate, run["device"], run["date"]
    try:
        content = json.loads(MEASURED.read_bytes())["rates"]
        own = {name: float(content[name]) for name in ("digest", "tokenize", "write", "start")}
    except (OSError, ValueError, KeyError, TypeError):
        remedy = f"Write it again: python -m bench.study --json {MEASURED.name}."
        raise DataError("this is no result of the study's benchmark", str(MEASURED), remedy) from None
    return Rates(flops=flops, gpu=name, measured=measured, read=STORAGE, **own)


UNKNOWN = 8e9  # bytes that a job asks for if the size of its model is not known


@dataclass(frozen=True)
class Cost:
    """What one model on one corpus costs.

    size: None where it is not known, as are then flops and what follows from it; tokens: to be ranked, at most (None:
    the corpus decides); flops; memory: of a GPU, or of a job on CPUs, in bytes; seconds: for the operations alone;
    extra: the seconds that each shard spends before its first token; disk: bytes; shards; there: what is measured
    already.
    """

    cell: Cell
    size: Size | None
    tokens: int | None
    flops: float | None
    memory: float | None
    seconds: float | None
    extra: float | None
    disk: float | None
    shards: int
    there: CellProgress

    @property
    def shard_seconds(self) -> float | None:
        """What one of the shards takes."""
        if self.seconds is None or self.extra is None:
            return None
        return self.extra + self.seconds / self.shards


@dataclass(frozen=True)
class Plan:
    """The costs of all cells of a study, and what they are reckoned with: on GPUs, or on the CPU cores of jobs."""

    study: Study
    on_gpu: bool
    rates: Rates
    costs: tuple[Cost, ...]

    @property
    def too_large(self) -> list[tuple[str, float]]:
        """The models that do not fit the study's GPU, with the bytes that they need; none on CPUs."""
        if not self.on_gpu:
            return []
        limit = self.study.content.gpu.memory * 1e9
        needs = {cost.cell.model.name: cost.memory for cost in self.costs if cost.memory is not None}
        return [(name, memory) for name, memory in needs.items() if memory > limit]

    def hours(self, gpus: int) -> float | None:
        """How long the whole study takes on so many GPUs, or jobs at once: each shard goes to the first that is free.

        The longest go first. None where a cost is not known.
        """
        times = [cost.shard_seconds for cost in self.costs for _ in range(cost.shards)]
        known = [time for time in times if time is not None]
        if len(known) < len(times):
            return None
        free = [0.0] * gpus
        for time in sorted(known, reverse=True):
            heapq.heapreplace(free, free[0] + time)
        return max(free) / 3600


def make_plan(
    study: Study, tokens: int | None = None, shards: int | None = None, on_gpu: bool = True, here: bool = False
) -> Plan:
    """The plan of a study; with another budget for each cell, or another number of shards; for GPUs, or for CPUs.

    here: local texts are tokenized by local models, and CPUs are reckoned with at the rate measured on this machine.

    With `tokens`, the authors' protocol takes as many documents as that needs at their full length.
    """
    protocol = study.protocol
    if tokens is not None:
        documents = math.ceil(tokens / (protocol.length - 1)) if protocol.name == "authors" else protocol.documents
        protocol = replace(protocol, tokens=tokens, documents=documents)
    chosen = _rates(study, on_gpu)
    count = shards or study.content.shards
    costs = tuple(_cost(study, cell, protocol, chosen, count, on_gpu, here) for cell in study.cells)
    if (sizes := [cost.size for cost in costs if cost.size]) and here and not on_gpu:
        rate = _rate_here(study, max(sizes, key=lambda size: size.head))
        chosen = replace(chosen, flops=rate.ranking, gpu=str(rate), measured=rate.measured)
    return Plan(study, on_gpu, chosen, costs)


def _rates(study: Study, on_gpu: bool) -> Rates:
    found = find_rates(study.content.gpu, study.content.dtype)
    return found if on_gpu else replace(found, flops=CPU_CORE * study.content.threads, gpu="CPUs", measured=None)


def jobs_here(study: Study) -> int:
    """How many shards this machine's cores work on at once."""
    return max(1, (os.cpu_count() or 1) // study.content.threads)


def tokens_at_most(corpus: str, protocol: Protocol) -> int | None:
    """How many tokens of a corpus a protocol ranks at most; None if the corpus alone decides."""
    bounds = [] if protocol.tokens is None else [protocol.tokens]
    known = CORPORA[corpus].documents if corpus in CORPORA else None
    documents = min((n for n in (known, protocol.documents) if n is not None), default=None)
    if documents is not None and protocol.name == "authors":
        bounds.append(documents * (protocol.length - 1))  # the first of a document is not ranked
    return min(bounds, default=None)


@cache
def ladder_tokens(model: str, corpus: str) -> int | None:
    """How many tokens of a domain of the ladder are ranked without a budget, by its stores.

    None for other corpora, and for a model whose tokenizer is not the ladder's.
    """
    shared, own = _LADDER / "tokenizer" / "tokenizer.json", Path(model) / "tokenizer.json"
    if not own.exists() and Path(model).resolve().is_relative_to((_LADDER / "families").resolve()):
        own = shared
    try:
        same = own.read_bytes() == shared.read_bytes()
    except OSError:
        return None
    stores = (_LADDER / "families-ranks").glob(f"*/*-{corpus.removeprefix(TEXTS)}-*/manifest.json")
    known = {int(json.loads(path.read_bytes())["tokens"]) for path in stores if corpus.startswith(TEXTS)}
    return max(known) if same and known else None


def flops_of(size: Size, tokens: int, protocol: Protocol) -> float:
    """The operations for so many ranked tokens of texts that are not here to be counted.

    Windows with context c of length n read n / (n − c) tokens for each that they rank.
    """
    return operations(size, tokens * _read_for_each(protocol), tokens)


def _read_for_each(protocol: Protocol) -> float:
    return protocol.length / (protocol.length - (protocol.context or 0))


def job_memory(study: Study, cell: Cell, on_gpu: bool) -> int:
    """Megabytes of memory that a shard asks for: the weights, which a GPU's job loads too, and the process."""
    size, content = model_size(cell.model), study.content
    if size is None:
        return int(UNKNOWN / 1e6)
    need = size.total * BYTES[content.dtype] + PROCESS
    if not on_gpu:
        need = cpu_memory(size, content.dtype, study.protocol.length, content.threads)
    return math.ceil(need / 1e6)


SHORTEST, LONGEST = 60.0, 300.0  # planned seconds up to which shards share a job of Slurm's, at least and at most


def bundles(study: Study, on_gpu: bool, at_once: int | None = None) -> dict[str, dict[str, Any]]:
    """The jobs for the shards that are left, by name, with what each asks a scheduler for: megabytes and minutes.

    at_once: jobs in a scheduler's queue. Shards that are short by the plan then share a job, one after the other: up to
    the planned seconds that such a job has if all work is spread over so many, within SHORTEST and LONGEST. None: a
    job for each. After its minutes a job may be stopped: three times what it should take, and a quarter of an hour.
    """
    left = [
        (cell, job, seconds)
        for cell in study.cells
        for seconds in [_shard_seconds(study, cell, on_gpu)]
        for job in shards_of(study, cell)
        if not (study.out / job.output).is_file()
    ]
    fill = 0.0
    if at_once is not None:
        fill = min(LONGEST, max(SHORTEST, sum(seconds for *_, seconds in left) / at_once))
    shared: list[list[tuple[Cell, Job, float]]] = []
    filled = math.inf
    for one in left:
        if filled + one[2] > fill:
            shared.append([])
            filled = 0.0
        shared[-1].append(one)
        filled += one[2]
    return dict(_bundle(study, on_gpu, some) for some in shared)


def _shard_seconds(study: Study, cell: Cell, on_gpu: bool) -> float:
    count = len(shards_of(study, cell))
    seconds = _cost(study, cell, study.protocol, _rates(study, on_gpu), count, on_gpu).shard_seconds
    return math.inf if seconds is None else seconds


def _bundle(study: Study, on_gpu: bool, some: list[tuple[Cell, Job, float]]) -> tuple[str, dict[str, Any]]:
    cells = {cell.name: cell for cell, *_ in some}
    seconds = sum(seconds for *_, seconds in some)
    first = some[0][1].name.removeprefix("shards/")
    name = f"bundles/{first}" + (f"-and-{len(some) - 1}-more" if some[1:] else "")
    asked = {
        "megabytes": max(job_memory(study, cell, on_gpu) for cell in cells.values()),
        "minutes": 24 * 60 if math.isinf(seconds) else math.ceil(15 + 3 * seconds / 60),
    }
    return name, {"cells": list(cells), "shards": [job.name for _, job, _ in some], **asked}


def _rate_here(study: Study, size: Size) -> Rate:
    import torch

    return measured_rate(size, study.content.dtype, torch.device("cpu"), study.content.threads)


_COUNTED: dict[Any, tuple[int, int]] = {}  # by tokenizer, text and protocol: models share them


def _counted(cell: Cell, chosen: Protocol) -> tuple[int, int] | None:
    """How many tokens are read and ranked of a text of this machine by a model of this machine.

    None for others, and where they cannot be counted: why not is told by the measurement itself.
    """
    model, corpus = cell.model, cell.corpus
    if model.folder is None or corpus.name in CORPORA:
        return None
    from rbp.ranks.models import find_model, load_tokenizer

    try:
        files = find_model(model.name, model.revision)
        asked = files.tokenizer_fingerprint(), corpus.name, tuple(corpus.fields), chosen
        if asked not in _COUNTED:
            rows = plan_rows(open_corpus(corpus.name, corpus.fields), load_tokenizer(files), chosen)
            _COUNTED[asked] = rows.tokens_read, rows.tokens
    except RbpError:
        return None
    return _COUNTED[asked]


def _cost(
    study: Study, cell: Cell, protocol: Protocol, chosen: Rates, shards: int, on_gpu: bool, here: bool = False
) -> Cost:
    size = model_size(cell.model)
    counted = _counted(cell, protocol) if here else None
    there = progress(study, cell)
    bounds = tokens_at_most(cell.corpus.name, protocol), ladder_tokens(str(cell.model.folder), cell.corpus.name)
    tokens = min((bound for bound in bounds if bound is not None), default=None)
    if counted is not None:
        tokens = counted[1]
    elif there.tokens and protocol == study.protocol:
        tokens = there.tokens
    dtype = study.content.dtype
    flops = seconds = extra = memory = None
    if size is not None:
        memory = gpu_memory(size, dtype, protocol.length) if on_gpu else job_memory(study, cell, False) * 1e6
        if tokens is not None:
            flops = operations(size, *counted) if counted else flops_of(size, tokens, protocol)
            seconds = flops / chosen.flops
            if here and not on_gpu:
                read = counted[0] if counted else tokens * _read_for_each(protocol)
                seconds = ranking_seconds(size, read, tokens, _rate_here(study, size))
            weights = size.total * BYTES[dtype]
            extra = chosen.start + weights / chosen.read + weights / chosen.digest + tokens / chosen.tokenize
    disk = None if tokens is None else tokens * STORED
    return Cost(cell, size, tokens, flops, memory, seconds, extra, disk, shards, there)
