"""Degrade one model along paths, and measure it at every step: sums by step and document.

Paths lead from the whole model to a nearly useless one, a step at a time:

    context       exactly so many tokens before each scored one: 1 to 64
    depth         so many of its layers, then what follows them
    bits          the matrices of its layers, rounded to so many bits
    replaced      so large a share of what it reads replaced by other tokens of the same text
    weights       noise on these matrices: so large a standard deviation, in root mean squares of each
    logits        noise on the logits: so large a standard deviation, in nats

Embeddings and the output layer stay as they are: S does not count them either. The sums of every step are a file, so
that a run which was stopped goes on.
"""

import hashlib
import io
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn

from companion.damage.compare import (
    CONTEXTS,
    MANIFEST,
    SMALLER,
    STEPS,
    SUMS,
    TEMPERATURES,
    THRESHOLDS,
    WHOLE,
)
from rbp.choices import Dtype
from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import circumstances, quiet
from rbp.extract.forward import Ranker
from rbp.io import write_file, write_json
from rbp.kernel.problem import ieee
from rbp.models.find import ModelFiles
from rbp.models.head import wide
from rbp.models.load import LanguageModel, load_model, load_tokenizer
from rbp.store import find_place, full_disk
from rbp.texts.corpora import Corpus
from rbp.texts.protocol import Protocol, Row, longest_input, opening_entry, plan_rows, window_length

log = logging.getLogger(__name__)

DRAWS = 3  # of noise on weights and on logits
GROUP = 64  # weights next to one another in a row that are rounded by the largest among them
_READ = 2**13  # tokens that the model reads at once
_LOGITS = {"cpu": 2**21, "cuda": 2**27}  # entries of the logits at once


class Step(NamedTuple):
    """A step of a path: how far it goes, and which draw of its noise."""

    path: str
    step: float
    draw: int = 0

    @property
    def seed(self) -> int:
        """Return the seed of all that is drawn for the step."""
        return 1000 * (self.draw + 1) + round(100 * self.step)


WHOLE_STEP = Step(WHOLE, 0)


@dataclass(frozen=True)
class Reading:
    """What a model reads in one go: `ids`, and the tokens it has to predict: `targets`, after `places`."""

    document: int
    ids: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]


def list_steps(path: str, language: LanguageModel) -> list[Step]:
    """List the steps of a path, draw by draw. Raises ParameterError for "depth" where a model has no list of layers."""
    chosen = STEPS[path] if path != "depth" else tuple(range(len(_layers(language)[2]) - 1, -1, -1))
    draws = DRAWS if path in ("weights", "logits") else 1
    return [Step(path, step, draw) for draw in range(draws) for step in chosen]


def list_readings(rows: Sequence[Row], step: Step) -> list[Reading]:
    """Return what a model reads at a step, in the order of the rows' scored tokens."""
    if step.path == "context":
        before = int(step.step)
        scored, last = ((row, s) for row in rows for s in row.scored), np.array([before - 1])
        return [Reading(row.document, row.ids[s - before : s], last, row.ids[s : s + 1]) for row, s in scored]
    undamaged = [Reading(row.document, row.ids[:-1], row.scored - 1, row.ids[row.scored]) for row in rows]
    if step.path != "replaced":
        return undamaged
    draw, pool = np.random.default_rng(step.seed), np.concatenate([row.ids[row.scored] for row in rows])

    def other(ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.where(draw.random(len(ids)) < step.step, draw.choice(pool, len(ids)), ids)

    return [Reading(reading.document, other(reading.ids), reading.places, reading.targets) for reading in undamaged]


@contextmanager
def degraded(language: LanguageModel, step: Step) -> Iterator[None]:
    """Change the model to what it is at a step, then restore it; callers change what it reads, and its logits."""
    if step.path == "depth":
        parent, name, layers = _layers(language)
        setattr(parent, name, nn.ModuleList(list(layers)[: int(step.step)]))
        try:
            yield
        finally:
            setattr(parent, name, layers)
        return
    draw = torch.Generator().manual_seed(step.seed)
    changes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "bits": lambda weights: round_weights(weights, int(step.step)),
        "weights": lambda weights: _noisy(weights, step.step, draw),
    }
    if step.path not in changes:
        yield
        return
    with change_weights(select_matrices(language.model), changes[step.path]):
        yield


@contextmanager
def change_weights(weights: Sequence[torch.Tensor], change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Change weights in place, then restore them, also after an error."""
    before = [(matrix, matrix.detach().clone()) for matrix in weights]
    try:
        with torch.no_grad():
            for matrix, original in before:
                matrix.copy_(change(original))
        yield
    finally:
        with torch.no_grad():
            for matrix, original in before:
                matrix.copy_(original)


def select_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return all weights of two dimensions and more but the embeddings' and the output layer's."""
    apart: list[nn.Module] = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    output = getattr(model, "get_output_embeddings", lambda: None)()
    apart += [output] if isinstance(output, nn.Module) else []
    left_out = {id(parameter) for module in apart for parameter in module.parameters()}
    return [weights for weights in model.parameters() if weights.ndim > 1 and id(weights) not in left_out]


def round_weights(weights: torch.Tensor, bits: int) -> torch.Tensor:
    """Round weights to the nearest of 2^bits − 1 values, evenly from −m to m; m: the largest magnitude of its group.

    A group is GROUP weights next to one another in a row (the last one of a row may be shorter).
    """
    parts = []
    for group in torch.split(weights.float(), GROUP, dim=-1):
        unit = group.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
        parts.append((group / unit.clamp(min=torch.finfo(torch.float32).tiny)).round() * unit)
    return torch.cat(parts, -1).to(weights.dtype)


def _noisy(weights: torch.Tensor, size: float, draw: torch.Generator) -> torch.Tensor:
    noise = torch.randn(weights.shape, generator=draw).to(weights.device)
    return (weights.float() + size * weights.float().square().mean().sqrt() * noise).to(weights.dtype)


def _layers(language: LanguageModel) -> tuple[nn.Module, str, nn.ModuleList]:
    """Find a model's list of layers, its parent and name. Raises ParameterError where it has none."""
    backbone: Any = language.model.base_model
    depth = getattr(language.model.config.get_text_config(), "num_hidden_layers", 0)
    for path, layers in backbone.named_modules():
        if isinstance(layers, nn.ModuleList) and len(layers) == depth:
            parent, _, name = path.rpartition(".")
            return backbone.get_submodule(parent), name, layers
    fault = f"{language.model.config.model_type} has no list of its layers"
    raise ParameterError(fault, f"{language.name}, --paths depth", "Leave out depth.")


class Growing:
    """The folder of one measurement as it grows: manifest.json, a file for each step, and sums.parquet of all."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        if not (folder / MANIFEST).exists():
            begun = datetime.now(UTC).isoformat(timespec="seconds")
            with full_disk(folder):
                write_json(folder / MANIFEST, manifest | {"begun": begun})

    def place(self, step: Step, model: str, weights: str) -> Path:
        """Return the file of a step of a model with these weights; a smaller model's with other weights goes."""
        name, code = (hashlib.sha256(text.encode()).hexdigest()[:12] for text in (model, weights))
        for file in (self.folder / "steps").glob(f"{SMALLER}-*-{name}-*.parquet"):
            if not file.stem.endswith(code):
                file.unlink()
        return self.folder / "steps" / f"{step.path}-{step.step:g}-{step.draw}-{name}-{code}.parquet"

    def join(self) -> None:
        """Join the files of all steps in sums.parquet."""
        table = pd.concat(map(pd.read_parquet, sorted((self.folder / "steps").glob("*.parquet"))), ignore_index=True)
        with full_disk(self.folder):
            write_file(self.folder / SUMS, pack_table(table))


def pack_table(table: pd.DataFrame) -> bytes:
    """Write a table as Parquet, packed as far as it goes."""
    data = io.BytesIO()
    table.to_parquet(data, index=False, compression="zstd", compression_level=19)
    return data.getvalue()


def run(
    files: ModelFiles,
    corpus: Corpus,
    paths: Sequence[str],
    out: Path,
    *,
    smaller: Sequence[ModelFiles] = (),
    tokens: int = 40_000,
    length: int | None = None,
    dtype: Dtype = "float32",
    device: torch.device,
) -> Path:
    """Measure a model on a text, whole and along `paths`; gives its folder in `out`. What is there is left alone.

    smaller: other models of its family, which are the path "parameters". tokens: whole documents of at least a window
    each, the shortest first, until so many are scored. length: of a window (default: 1024, or what the model reads), of
    which half is context. Raises DataError and ParameterError, and leaves nothing half-written.
    """
    with quiet(), ieee(device):
        with files.unchanged():
            language, tokenizer, weights = load_model(files, dtype, device), load_tokenizer(files), files.fingerprint()
        todo = [WHOLE_STEP, *(step for path in paths for step in list_steps(path, language))]
        longest = longest_input(files.config)
        length = window_length([files.config]) if length is None else length
        if length < 2 * CONTEXTS[-1] or (longest is not None and length > longest):
            fault = f"windows of {length} tokens are too short, or more than the model reads"
            raise ParameterError(fault, "--length", f"Give {2 * CONTEXTS[-1]} to {longest or 'any number of'} tokens.")
        rows = scored_rows(corpus, tokenizer, length, tokens)
        for other in smaller:
            if other.tokenizer_fingerprint(load_tokenizer(other)) != files.tokenizer_fingerprint(tokenizer):
                fault = "it has another tokenizer, so it would be asked for other tokens"
                raise ParameterError(fault, other.name, f"Give models with the tokenizer of {files.name}.")
        key = {
            "weights": weights,
            "tokenizer": files.tokenizer_fingerprint(tokenizer),
            "corpus": corpus.fingerprint,
            "length": length,
            "tokens": tokens,
            "dtype": dtype,
            "device": device.type,
            **opening_entry(tokenizer, "auto"),
        }
        place = find_place(out, f"{Path(files.label).name}-{corpus.name}", key)
        with place.lock():
            ranker = checked_ranker(language, rows)
            description = {"model": files.label, "dataset": corpus.name, **circumstances(ranker)}
            store = Growing(place.folder, {"key": key, "about": description})
            measure_steps(store, ranker, rows, todo, files.label, weights)
            for other in smaller:
                with other.unchanged():
                    language, weights = load_model(other, dtype, device), other.fingerprint()
                size = [Step(SMALLER, language.size)]
                measure_steps(store, checked_ranker(language, rows), rows, size, other.label, weights)
            store.join()
    return place.folder


def scored_rows(corpus: Corpus, tokenizer: Any, length: int, tokens: int) -> list[Row]:
    """Choose the rows of whole documents, the shortest first, and in them the tokens that are scored: see `run`."""
    plan = plan_rows(corpus, tokenizer, Protocol("windows", length, length // 2))
    by_document: dict[int, list[Row]] = {}
    for row in plan.rows:
        scored = row.scored[row.scored >= CONTEXTS[-1]]
        if len(scored):
            by_document.setdefault(row.document, []).append(Row(row.document, row.start, row.ids, scored))
    document_ends = {document: rows[-1].start + len(rows[-1].ids) for document, rows in by_document.items()}
    chosen, count = list[Row](), 0
    for document in sorted(document_ends, key=lambda place: (document_ends[place], place)):
        if count >= tokens:
            break
        if document_ends[document] >= length:
            chosen += by_document[document]
            count += sum(len(row.scored) for row in by_document[document])
    if not chosen:
        fault = f"no document has a window of {length} tokens"
        raise DataError(fault, corpus.name, "Give longer documents, or a shorter --length.")
    return chosen


def checked_ranker(language: Any, rows: list[Row]) -> Ranker:
    """Make a ranker that has checked the model."""
    ranker = Ranker(language, "reference", 1, compiled=False)
    ranker.check(rows)
    return ranker


def measure_steps(
    store: Growing,
    ranker: Ranker,
    rows: list[Row],
    todo: Sequence[Step],
    model: str,
    weights: str,
    degrade: Callable[[LanguageModel, Step], AbstractContextManager[None]] = degraded,
    read: Callable[[Sequence[Row], Step], list[Reading]] = list_readings,
) -> None:
    """Measure the steps that are missing. degrade, read: what changes the model at a step, and what it reads there."""
    for step in todo:
        place = store.place(step, model, weights)
        if place.exists():
            continue
        start = time.monotonic()
        with degrade(ranker.language, step):
            sums = measured(ranker, read(rows, step), step)
        with full_disk(store.folder):
            write_file(place, pack_table(sums.assign(**step._asdict(), model=model)))
        tokens = sums["tokens"].sum()
        label = Path(model).name if step.path == SMALLER else f"{step.path} {step.step:g}, draw {step.draw + 1}"
        values = sums["nll_1.0"].sum() / tokens, -np.log(max(sums["hits_1"].sum(), 1) / tokens)
        log.warning("%s: cross-entropy %.3f, −ln RBP₁ %.3f (%.0f s)", label, *values, time.monotonic() - start)


@torch.inference_mode()
def measured(ranker: Ranker, read: Sequence[Reading], step: Step = WHOLE_STEP) -> pd.DataFrame:
    """Compute the sums of `Paths` by document from the model's predictions at the places of each reading."""
    parts = list(_of_logits(ranker, read, step))
    documents, values = (np.concatenate(columns_of_part) for columns_of_part in zip(*parts, strict=True))
    names, place = np.unique(documents, return_inverse=True)
    sums = np.stack([np.bincount(place, column) for column in values.T])
    columns = ["tokens", *(f"hits_{k}" for k in THRESHOLDS)]
    columns += [f"{column}_{t}" for t in TEMPERATURES for column in ("nll", "slope")]
    table = pd.DataFrame(dict(zip(columns, sums, strict=True))).astype(np.float32)
    counts = {name: np.int32 for name in columns if name == "tokens" or name.startswith("hits")}
    return table.astype(counts).assign(document=names.astype(np.int32))


def _of_logits(
    ranker: Ranker, read: Sequence[Reading], step: Step
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """Yield the documents of some tokens, and of each token the columns that `measured` adds up."""
    device = ranker.language.device
    draw = torch.Generator(device).manual_seed(step.seed)
    block = max(1, _LOGITS[device.type] // ranker.language.vocabulary)
    for outputs, targets, documents in _outputs(ranker, read):
        for first in range(0, len(outputs), block):
            some = slice(first, first + block)
            logits = _logits(ranker, outputs[some])
            if step.path == "logits":
                logits += step.step * torch.randn(logits.shape, generator=draw, device=device)
            yield documents[some], _columns(logits, torch.from_numpy(targets[some]).to(device))


def _columns(logits: torch.Tensor, target: torch.Tensor) -> npt.NDArray[np.float64]:
    """Compute from logits [t, V] and truth [t]: 1, hits by threshold, −ln p and its slope by temperature."""
    truth = logits.gather(1, target[:, None])
    rank = (logits >= truth).sum(1, dtype=torch.float32)  # three times as fast as whole numbers, exact to 2^24
    highest = logits.amax(1, keepdim=True)
    if not highest.isfinite().all():
        raise DataError("a logit is NaN or infinite", None, "Check the weights and the model's dtype.")
    lower, truth = logits.sub_(highest).clamp_(min=-1e30), (truth - highest)[:, 0].double()  # −∞ · 0 is no number
    columns = [torch.ones_like(truth), *((rank <= k).double() for k in THRESHOLDS)]
    weights, product = torch.empty_like(lower), torch.empty_like(lower)
    sums: dict[float, tuple[torch.Tensor, torch.Tensor]] = {}
    for temperature in (start for start in TEMPERATURES if 2 * start not in TEMPERATURES):
        torch.div(lower, temperature, out=weights).exp_()
        while temperature in TEMPERATURES:  # exponentials take longest: at half the temperature they are squares
            mean = torch.mul(weights, lower, out=product).sum(1)
            sums[temperature] = weights.sum(1).double(), mean.double()
            weights.square_()
            temperature /= 2
    for temperature in TEMPERATURES:
        total, mean = sums[temperature][0], sums[temperature][1] / sums[temperature][0]
        columns += [total.log() - truth / temperature, mean - truth]
    return torch.stack(columns, 1).cpu().numpy()


def _logits(ranker: Ranker, outputs: torch.Tensor) -> torch.Tensor:
    head = ranker.head
    if head is None:
        return wide(outputs)
    logits = wide(torch.nn.functional.linear(outputs, head.weight, head.bias))
    logits = logits if head.scale == 1 else logits.mul_(head.scale)
    return logits if head.softcap is None else head.softcap * torch.tanh(logits / head.softcap)


def _outputs(
    ranker: Ranker, read: Sequence[Reading]
) -> Iterator[tuple[torch.Tensor, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yield what is ranked [t, …], its targets and documents [t]: readings of one length together, none padded."""
    lengths = np.array([len(reading.ids) for reading in read])
    for length in np.unique(lengths):
        same, size = np.flatnonzero(lengths == length), max(1, _READ // int(length))
        for some in (same[first : first + size] for first in range(0, len(same), size)):
            ids = torch.from_numpy(np.stack([read[i].ids for i in some])).to(ranker.language.device)
            outputs = ranker.hidden_or_logits(ids).flatten(0, 1)
            places = np.concatenate([row * length + read[i].places for row, i in enumerate(some)])
            targets = np.concatenate([read[i].targets for i in some])
            documents = np.concatenate([np.full(len(read[i].places), read[i].document) for i in some])
            yield outputs[torch.from_numpy(places).to(outputs.device)], targets, documents
