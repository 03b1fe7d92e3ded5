"""Estimate what a study costs before it runs: tokens, operations and memory, by the formulas of `rbp.extract.plan`."""

import math
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from rbp.choices import BYTES
from rbp.errors import DataError, RbpError
from rbp.extract.plan import PROCESS, Size, config_size, cpu_memory, gpu_memory, operations
from rbp.registry import known_models
from rbp.study.config import Cell, Study
from rbp.texts.corpora import CORPORA, open_corpus
from rbp.texts.protocol import Protocol, plan_rows

UNKNOWN = 8000  # megabytes that a job requests if the size of its model is not known


@cache
def model_size(model: str, folder: Path | None) -> Size | None:
    """Return the size of a model; None where neither an installed package nor this machine knows it."""
    row = known_models().get(model)
    if row is not None:
        head = int(row["embedding_params"])
        total = int(row["total_params"]) + head
        return Size(int(row["non_embedding_params"]), total, head, int(row["vocab_size"]), "known")
    try:
        return config_size(folder) if folder is not None and (folder / "config.json").is_file() else None
    except DataError:  # the job itself will say why
        return None


def make_plan(study: Study) -> pd.DataFrame:
    """Plan a study, a row for each model on each corpus; what is not known here is missing.

    Columns model, corpus, size (S), tokens (to be ranked, at most), operations (floating-point), memory (bytes, of a
    GPU or of a job on CPUs). Needs no network; local texts are tokenized by local models.
    """
    return pd.DataFrame([_cost(study, cell) for cell in study.cells.values()])


def _cost(study: Study, cell: Cell) -> dict[str, Any]:
    model = cell.model
    size, counts = model_size(model.name, model.folder), _count_tokens(cell, study.protocol)
    return {
        "model": model.label + (f"@{model.revision}" if model.revision else ""),
        "corpus": cell.corpus.name,
        "size": size and size.non_embedding,
        "tokens": counts and counts[1],
        "operations": operations(size, *counts) if size and counts else None,
        "memory": size and _memory(study, size),
    }


def _memory(study: Study, size: Size) -> float:
    content, length = study.content, study.protocol.length
    if content.device == "cuda":
        return gpu_memory(size, content.dtype, length)
    return cpu_memory(size, content.dtype, length, content.threads)


def _count_tokens(cell: Cell, protocol: Protocol) -> tuple[float, int] | None:
    """Count the tokens read and ranked: of a local text by a local model exactly, else as many as the protocol allows.

    None where the corpus alone decides.
    """
    if cell.model.folder is not None and cell.corpus.name not in CORPORA:
        from rbp.models.find import find_model
        from rbp.models.load import load_tokenizer

        with suppress(RbpError):  # the job itself will say why
            tokenizer = load_tokenizer(find_model(cell.model.name, cell.model.revision))
            rows = plan_rows(open_corpus(cell.corpus.name, cell.corpus.fields), tokenizer, protocol)
            return rows.tokens_read, rows.tokens
    known = CORPORA[cell.corpus.name].documents if cell.corpus.name in CORPORA else None
    documents = min((n for n in (known, protocol.documents) if n is not None), default=None)
    bounds = [] if protocol.tokens is None else [protocol.tokens]
    if documents is not None and protocol.name == "authors":
        bounds.append(documents * (protocol.length - 1))  # the first of a document is not ranked
    if not bounds:
        return None
    return min(bounds) * protocol.length / (protocol.length - (protocol.context or 0)), min(bounds)


def job_memory(study: Study, cell: Cell) -> int:
    """Reckon the megabytes of host memory that a shard requests: weights, which a GPU's job loads too, and process."""
    size, content = model_size(cell.model.name, cell.model.folder), study.content
    if size is None:
        return UNKNOWN
    on_gpu = content.device == "cuda"
    return math.ceil((size.total * BYTES[content.dtype] + PROCESS if on_gpu else _memory(study, size)) / 1e6)


def _total(values: "pd.Series[float]") -> float:
    """Sum values; missing if one of them is."""
    return float(values.sum(skipna=False))


def plan_lines(study: Study, costs: pd.DataFrame, rate: float | None = None) -> list[str]:
    """Format a plan: a row for each model, and the totals.

    rate: floating-point operations a second that the device reaches, which adds hours.
    """
    content, protocol, corpora = study.content, study.protocol, [corpus.name for corpus in study.corpora]
    sums, whole = costs[["tokens", "operations"]].astype(float), costs.groupby("model", sort=False)
    table = sums.groupby(costs["model"], sort=False).agg(_total)
    table.loc["in all"] = sums.sum(skipna=False)
    table["memory"] = whole["memory"].first().astype(float) / 1e9
    table.insert(0, "S", whole["size"].first().astype(float))
    formats = {"S": ",.0f", "tokens": ",.0f", "operations": ".2e", "memory": ".1f"}
    if rate:
        table["hours"], formats["hours"] = table["operations"] / rate / 3600, ".2f"
    text = pd.DataFrame({name: table[name].map(f"{{:{how}}}".format) for name, how in formats.items()})
    text = text.mask(table.isna(), "?")
    text.loc["in all", ["S", "memory"]] = ""
    titles = {"memory": "GPU memory, GB" if content.device == "cuda" else "memory, GB", "hours": "device hours"}
    return [
        f"{len(study.models)} models × {len(corpora)} corpora ({', '.join(corpora)}), {content.shards} shards of each",
        f"protocol {protocol.name}, {protocol.length} tokens at once, {content.dtype} on {content.device}",
        "",
        *text.rename_axis(None).rename(columns=titles).to_string().splitlines(),
        "",
        "Tokens: at most. Operations: 2·S for each token read, 2·V·d for each ranked. ?: not known here.",
    ]
