"""What a study would cost before it runs: tokens, operations and memory, by the formulas of `rbp.extract.cost`."""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rbp.choices import BYTES
from rbp.errors import DataError, RbpError
from rbp.extract.corpora import CORPORA, open_corpus
from rbp.extract.cost import PROCESS, Size, config_size, cpu_memory, gpu_memory, operations
from rbp.extract.protocol import Protocol, plan_rows
from rbp.registry import known_models
from rbp.study.config import Cell, ModelEntry, Study

UNKNOWN = 8000  # megabytes that a job requests if the size of its model is not known


@cache
def model_size(model: str, folder: Path | None) -> Size | None:
    """The size of a model; None where neither an installed package nor this machine knows it."""
    row = known_models().get(model)
    if row is not None:
        head = int(row["embedding_params"])
        total = int(row["total_params"]) + head
        return Size(int(row["non_embedding_params"]), total, head, int(row["vocab_size"]), "known")
    try:
        return config_size(folder) if folder is not None and (folder / "config.json").is_file() else None
    except DataError:  # the job itself will say why
        return None


def _size(model: ModelEntry) -> Size | None:
    return model_size(model.name, model.folder)


@dataclass(frozen=True)
class Cost:
    """What one model on one corpus costs; None where it is not known here.

    size; tokens: to be ranked, at most; flops: floating-point operations; memory: bytes, of a GPU or of a job on CPUs.
    """

    cell: Cell
    size: Size | None
    tokens: int | None
    flops: float | None
    memory: float | None


def make_plan(study: Study) -> list[Cost]:
    """The costs of all cells of a study. Needs no network; local texts are tokenized by local models."""
    return [_cost(study, cell) for cell in study.cells.values()]


def _cost(study: Study, cell: Cell) -> Cost:
    size, protocol = _size(cell.model), study.protocol
    tokens = most_tokens(cell.corpus.name, protocol)
    counts = _count_tokens(cell, protocol)
    if counts is None and tokens is not None:
        counts = tokens * protocol.length / (protocol.length - (protocol.context or 0)), tokens
    memory = flops = None
    if size is not None:
        on_gpu, dtype, length = study.content.device == "cuda", study.content.dtype, protocol.length
        memory = gpu_memory(size, dtype, length) if on_gpu else cpu_memory(size, dtype, length, study.content.threads)
        flops = operations(size, *counts) if counts else None
    return Cost(cell, size, counts[1] if counts else None, flops, memory)


def most_tokens(corpus: str, protocol: Protocol) -> int | None:
    """How many tokens of a corpus a protocol ranks at most; None if the corpus alone decides."""
    bounds = [] if protocol.tokens is None else [protocol.tokens]
    known = CORPORA[corpus].documents if corpus in CORPORA else None
    documents = min((n for n in (known, protocol.documents) if n is not None), default=None)
    if documents is not None and protocol.name == "authors":
        bounds.append(documents * (protocol.length - 1))  # the first of a document is not ranked
    return min(bounds, default=None)


def _count_tokens(cell: Cell, protocol: Protocol) -> tuple[float, int] | None:
    """How many tokens are read and ranked of a local text by a local model; None for others, or if that fails."""
    if cell.model.folder is None or cell.corpus.name in CORPORA:
        return None
    from rbp.extract.models import find_model, load_tokenizer

    try:
        tokenizer = load_tokenizer(find_model(cell.model.name, cell.model.revision))
        rows = plan_rows(open_corpus(cell.corpus.name, cell.corpus.fields), tokenizer, protocol)
    except RbpError:  # the job itself will say why
        return None
    return rows.tokens_read, rows.tokens


def job_memory(study: Study, cell: Cell) -> int:
    """Megabytes of host memory that a shard requests: the weights, which a GPU's job loads too, and the process."""
    size, content = _size(cell.model), study.content
    if size is None:
        return UNKNOWN
    need = size.total * BYTES[content.dtype] + PROCESS
    if content.device == "cpu":
        need = cpu_memory(size, content.dtype, study.protocol.length, content.threads)
    return math.ceil(need / 1e6)


def plan_lines(study: Study, costs: list[Cost], rate: float | None = None) -> list[str]:
    """A plan as people read it: a line for each model, and the totals.

    rate: floating-point operations a second that the device reaches, which adds hours.
    """
    corpora, content = [corpus.name for corpus in study.corpora], study.content
    memory, hours = "GPU memory" if content.device == "cuda" else "memory", " device hours" if rate else ""
    lines = [
        f"{len(study.models)} models × {len(corpora)} corpora ({', '.join(corpora)}), {content.shards} shards of each",
        f"protocol {study.protocol.name}, {study.protocol.length} tokens at once, {content.dtype} on {content.device}",
        "",
        f"{'model':34} {'S':>15} {'tokens':>12} {'operations':>11} {memory:>11}{hours}",
    ]
    for model in study.models:
        mine = [cost for cost in costs if cost.cell.model == model]
        size, label = mine[0].size, model.label + (f"@{model.revision}" if model.revision else "")
        size_words, need = _of(size.non_embedding if size else None, ",d"), _of(mine[0].memory, ".1f", 1e9)
        lines.append(f"{label:34} {size_words:>15} {_totals(mine)} {need:>8} GB{_hours(mine, rate)}")
    lines.append(f"{'in all':34} {'':15} {_totals(costs)} {'':11}{_hours(costs, rate)}")
    note = "Tokens: at most. Operations: 2·S for each token read, 2·V·d for each ranked. ?: not known here."
    return [*lines, "", note]


def _totals(costs: list[Cost]) -> str:
    return f"{_of(_total([c.tokens for c in costs]), ',.0f'):>12} {_of(_total([c.flops for c in costs]), '.2e'):>11}"


def _hours(costs: list[Cost], rate: float | None) -> str:
    return f" {_of(_total([cost.flops for cost in costs]), '.2f', 3600 * rate):>12}" if rate else ""


def _total(values: "list[int | None] | list[float | None]") -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if len(known) == len(values) else None


def _of(value: float | None, how: str, unit: float = 1) -> str:
    return "?" if value is None else format(value if unit == 1 else value / unit, how)
