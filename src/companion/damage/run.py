"""Measure a model at every step of the paths on which it is degraded (`companion.damage.worse`): sums by document."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from companion.damage.sums import CONTEXTS, EARLIER, SMALLER, TEMPERATURES, THRESHOLDS, WHOLE, Growing
from companion.damage.worse import Reading, Step, degraded, readings, steps
from rbp.choices import Dtype
from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import circumstances, quiet
from rbp.extract.forward import Ranker
from rbp.kernel.problem import ieee
from rbp.models.find import ModelFiles
from rbp.models.head import wide
from rbp.models.load import load_model, load_tokenizer
from rbp.store import find_place
from rbp.texts.corpora import Corpus
from rbp.texts.protocol import Protocol, Row, longest_input, opening_entry, plan_rows, window_length

log = logging.getLogger(__name__)

WHOLE_STEP = Step(WHOLE, 0)
_READ = 2**13  # tokens that the model reads at once
_LOGITS = {"cpu": 2**21, "cuda": 2**27}  # entries of the logits that noise is drawn for together
# on a CPU a product of few rows waits for the output layer's weights, and columns that leave its cache for memory
_BLOCKS, _PARTS = {"cpu": 8, "cuda": 1}, {"cpu": 8, "cuda": 1}


def run(
    files: ModelFiles,
    corpus: Corpus,
    paths: Sequence[str],
    out: Path,
    *,
    smaller: Sequence[ModelFiles] = (),
    earlier: Sequence[ModelFiles] = (),
    tokens: int = 40_000,
    documents: int | None = None,
    length: int | None = None,
    dtype: Dtype = "float32",
    device: torch.device,
    predictions: Path | None = None,
) -> Path:
    """Measure a model on a text, whole and along `paths`; gives its folder in `out`. What is there is left alone.

    smaller, earlier: other models of its family, which are the paths "parameters" and "training". tokens: whole
    documents of at least a window each, the shortest first, until so many are scored. documents: the first so many of
    the text alone. length: of a window (default: 1024, or what the model reads), of which half is context. predictions:
    a file, whose checksum is kept. Raises DataError and ParameterError, and leaves nothing half-written.
    """
    with quiet(), ieee(device):
        with files.unchanged():
            language, tokenizer, weights = load_model(files, dtype, device), load_tokenizer(files), files.fingerprint()
        todo = [WHOLE_STEP, *(step for path in paths for step in steps(path, language))]
        longest = longest_input(files.config)
        length = window_length([files.config]) if length is None else length
        if length < 2 * CONTEXTS[-1] or (longest is not None and length > longest):
            what = f"windows of {length} tokens are too short, or more than the model reads"
            raise ParameterError(what, "--length", f"Give {2 * CONTEXTS[-1]} to {longest or 'any number of'} tokens.")
        rows = scored_rows(corpus, tokenizer, length, tokens, documents)
        others = [(SMALLER, each) for each in smaller] + [(EARLIER, each) for each in earlier]
        for _, other in others:
            if other.tokenizer_fingerprint(load_tokenizer(other)) != files.tokenizer_fingerprint(tokenizer):
                what = "it has another tokenizer, so it would be asked for other tokens"
                raise ParameterError(what, other.name, f"Give models with the tokenizer of {files.name}.")
        key = {
            "weights": weights,
            "tokenizer": files.tokenizer_fingerprint(tokenizer),
            "corpus": corpus.fingerprint,
            "length": length,
            "tokens": tokens,
            **({} if documents is None else {"documents": documents}),
            "dtype": dtype,
            "device": device.type,
            **opening_entry(tokenizer, "auto"),
        }
        place = find_place(out, f"{Path(files.name).name}-{corpus.name}", key)
        with place.lock():
            store, ranker = Growing(place.folder), _ranker(language, rows)
            about = {"model": files.name, "dataset": corpus.name, **circumstances(ranker)}
            store.begin(key, about, predictions)
            _along(store, ranker, rows, todo, files.name)
            for path, other in others:
                with other.unchanged():
                    language, weights = load_model(other, dtype, device), other.fingerprint()
                number = float(language.size if path == SMALLER else earlier.index(other) + 1)
                store.identify(path, number, other.name, weights)
                if store.lacks(*Step(path, number), other.name):
                    _along(store, _ranker(language, rows), rows, [Step(path, number)], other.name)
    return place.folder


def scored_rows(corpus: Corpus, tokenizer: Any, length: int, tokens: int, documents: int | None = None) -> list[Row]:
    """Choose the rows of whole documents, the shortest first, and in them the tokens that are scored: see `run`."""
    plan = plan_rows(corpus, tokenizer, Protocol("windows", length, length // 2, documents))
    by_document: dict[int, list[Row]] = {}
    for row in plan.rows:
        scored = row.scored[row.scored >= CONTEXTS[-1]]
        if len(scored):
            by_document.setdefault(row.document, []).append(Row(row.document, row.start, row.ids, scored))
    ends = {document: rows[-1].start + len(rows[-1].ids) for document, rows in by_document.items()}
    chosen, count = list[Row](), 0
    for document in sorted(ends, key=lambda each: (ends[each], each)):
        if count >= tokens:
            break
        if ends[document] >= length:
            chosen += by_document[document]
            count += sum(len(row.scored) for row in by_document[document])
    if not chosen:
        what = f"no document has a window of {length} tokens"
        raise DataError(what, corpus.name, "Give longer documents, or a shorter --length.")
    return chosen


def _ranker(language: Any, rows: list[Row]) -> Ranker:
    """Make a ranker that has checked the model."""
    ranker = Ranker(language, "reference", 1, compiled=False)
    ranker.check(rows)
    return ranker


def _along(store: Growing, ranker: Ranker, rows: list[Row], todo: Sequence[Step], model: str) -> None:
    """Measure the steps that are missing."""
    for step in todo:
        if not store.lacks(*step, model):
            continue
        start = time.monotonic()
        with degraded(ranker.language, step):
            sums = measured(ranker, readings(rows, step), step)
        store.add(*step, model, sums)
        tokens = sums["tokens"].sum()
        label = (
            Path(model).name if step.path in (SMALLER, EARLIER) else f"{step.path} {step.step:g}, draw {step.draw + 1}"
        )
        values = sums["nll_1.0"].sum() / tokens, -np.log(max(sums["hits_1"].sum(), 1) / tokens)
        log.warning("%s: cross-entropy %.3f, −ln RBP₁ %.3f (%.0f s)", label, *values, time.monotonic() - start)


@torch.inference_mode()
def measured(ranker: Ranker, read: Sequence[Reading], step: Step = WHOLE_STEP) -> pd.DataFrame:
    """Compute the sums of `Paths` by document from the model's predictions at the places of each reading."""
    parts = list(_of_logits(ranker, read, step))
    documents, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    names, place = np.unique(documents, return_inverse=True)
    sums = np.stack([np.bincount(place, column) for column in values.T])
    columns = ["tokens", "entropy", *(f"hits_{k}" for k in THRESHOLDS)]
    columns += [f"{what}_{t}" for t in TEMPERATURES for what in ("nll", "slope")]
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
    part, at_once = max(1, block // _PARTS[device.type]), block * _BLOCKS[device.type]
    for outputs, targets, documents in _outputs(ranker, read):
        for first in range(0, len(outputs), at_once):
            some = slice(first, first + at_once)
            logits = _logits(ranker, outputs[some])
            if step.path == "logits":
                for rows in torch.split(logits, block):
                    rows += step.step * torch.randn(rows.shape, generator=draw, device=device)
            truth = torch.from_numpy(targets[some]).to(device)
            pairs = zip(torch.split(logits, part), torch.split(truth, part), strict=True)
            yield documents[some], np.concatenate([_columns(*pair) for pair in pairs])


def _columns(logits: torch.Tensor, target: torch.Tensor) -> npt.NDArray[np.float64]:
    """Compute from logits [t, V] and truth [t]: 1, entropy, hits by threshold, −ln p and its slope by temperature."""
    truth = logits.gather(1, target[:, None])
    rank = (logits >= truth).sum(1, dtype=torch.float32)  # three times as fast as whole numbers, exact to 2^24
    highest = logits.amax(1, keepdim=True)
    if not highest.isfinite().all():
        raise DataError("a logit is NaN or infinite", None, "Check the weights and the model's dtype.")
    lower, truth = logits.sub_(highest).clamp_(min=-1e30), (truth - highest)[:, 0].double()  # −∞ · 0 is no number
    columns = [torch.ones_like(truth), torch.zeros_like(truth), *((rank <= k).double() for k in THRESHOLDS)]
    weights, product = torch.empty_like(lower), torch.empty_like(lower)
    sums: dict[float, tuple[torch.Tensor, torch.Tensor]] = {}
    for temperature in (each for each in TEMPERATURES if 2 * each not in TEMPERATURES):
        torch.div(lower, temperature, out=weights).exp_()
        while temperature in TEMPERATURES:  # exponentials take longest: at half the temperature they are squares
            mean = torch.mul(weights, lower, out=product).sum(1)
            sums[temperature] = weights.sum(1).double(), mean.double()
            weights.square_()
            temperature /= 2
    for temperature in TEMPERATURES:
        total, mean = sums[temperature][0], sums[temperature][1] / sums[temperature][0]
        columns += [total.log() - truth / temperature, mean - truth]
        if temperature == 1:
            columns[1] = total.log() - mean
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
    lengths = np.array([len(each.ids) for each in read])
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        for some in _split(same, max(1, _READ // int(length))):
            ids = torch.from_numpy(np.stack([read[i].ids for i in some])).to(ranker.language.device)
            outputs = ranker.read(ids).flatten(0, 1)
            places = np.concatenate([row * length + read[i].places for row, i in enumerate(some)])
            targets = np.concatenate([read[i].targets for i in some])
            documents = np.concatenate([np.full(len(read[i].places), read[i].document) for i in some])
            yield outputs[torch.from_numpy(places).to(outputs.device)], targets, documents


def _split(indices: npt.NDArray[np.int64], size: int) -> Iterable[npt.NDArray[np.int64]]:
    return (indices[first : first + size] for first in range(0, len(indices), size))
