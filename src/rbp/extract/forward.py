"""Ranks of the scored tokens of some rows: the model's hidden states, its output layer, then the ranking."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from rbp.choices import Backend
from rbp.errors import DataError, ParameterError, RankError
from rbp.extract.head import Head, find_head, head_logits, wide
from rbp.extract.models import LanguageModel, looks_at_length
from rbp.extract.probe import Probe, probe_model
from rbp.extract.protocol import Row, longest_input
from rbp.extract.reader import Reader, out_of_memory
from rbp.extract.state import fresh
from rbp.kernel import linear_rank
from rbp.kernel.problem import Rounding, TokenRanks
from rbp.names import and_more

_FINITE = "Check the weights, the model's dtype, and the scales and caps in its configuration."


def rank_logits(logits: torch.Tensor, target: torch.Tensor) -> TokenRanks:
    """Rank each target [T] among given logits [T, V].

    The −ln p of a target at −inf is infinite, as in `linear_rank`. Raises RankError where a logit is NaN or +inf.
    """
    if (nan := logits.isnan().any(1)).any():
        raise RankError("a logit is NaN", int(nan.int().argmax()), _FINITE)
    if (infinite := logits.isposinf().any(1)).any():
        raise RankError("a logit is +inf: no probability is defined", int(infinite.int().argmax()), _FINITE)
    logits = wide(logits)
    truth = logits.gather(1, target[:, None])
    nll = logits.double().logsumexp(1) - truth[:, 0].double()
    nll = torch.where(truth[:, 0].isneginf(), torch.inf, nll)  # where all are −inf, the difference is undefined
    return TokenRanks((logits > truth).sum(1), (logits == truth).sum(1), nll.float())


log = logging.getLogger(__name__)

PLACES = 64  # whose logits are looked at together: each look copies them
STEP = 64  # rows are padded to the next multiple of this: large batches, and little that is computed for nothing


class Ranks(NamedTuple):
    """Of the scored tokens, one after the other: greater, equal (int64) and nll (float32)."""

    greater: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    nll: npt.NDArray[np.float32]


@dataclass
class Ranker:
    """Ranks rows of tokens with one model.

    batch: rows at a time; vocabulary: how many rows of the output layer count, None for all; rounding, compiled: see
    `linear_rank`. padded: whether rows are padded to few lengths; None: on a GPU, if the configuration allows it.
    halvings: each batch size that memory forced, and the share of the last batch's ranks that differ from then on.
    probe: what `check` found out; until then nothing is taken for granted but the head.
    """

    language: LanguageModel
    backend: Backend
    batch: int
    vocabulary: int | None = None
    rounding: Rounding | None = None
    padded: bool | None = None
    compiled: bool = True

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ParameterError(f"a batch has at least 1 row, not {self.batch}", "--batch", "Give more.")
        if self.vocabulary is not None and not 1 <= self.vocabulary <= self.language.vocabulary:
            what = f"the vocabulary is limited to {self.vocabulary} of {self.language.vocabulary} tokens"
            raise ParameterError(what, "--vocab", "Give at least 1 and at most all.")
        config = self.language.model.config.to_dict()
        self._longest = longest_input(config)
        if self.padded is None:
            self.padded = self.language.device.type != "cpu" and not looks_at_length(config)
        self.halvings: list[tuple[int, float | None]] = []
        self._last: tuple[list[Row], Ranks] | None = None
        self._taken(Probe(find_head(fresh(self.language.model)), False, frozenset(), self.padded))

    def _taken(self, probe: Probe) -> None:
        self.probe, self.head, self.padded = probe, probe.head, probe.padded
        self.reader: Reader = probe.reader(self.language)

    @property
    def rounding_of_logits(self) -> str:
        """Return the dtype that the logits which are compared are rounded to."""
        if self.rounding is not None:
            return self.rounding
        return self.language.dtype if self.head is None or self.language.dtype == "float64" else "float32"

    def check(self, rows: Sequence[Row], known: Probe | None = None) -> Probe:
        """Look at the model before the work (`probe_model`), and rank by what this finds; gives it."""
        width = self._width if self.padded else None
        self._taken(probe_model(self.language, rows, find_head(fresh(self.language.model)), width, known))
        return self.probe

    def read(self, ids: torch.Tensor) -> torch.Tensor:
        """Return what is ranked of rows of one length [B, n]: what the output layer reads [B, n, d], or else logits.

        By a copy of the model as it is now.
        """
        reader = self.probe.reader(self.language)
        hidden = None if self.head is None else reader.hidden(ids)
        return reader.logits(ids)[0] if hidden is None else hidden

    def rank(self, rows: Sequence[Row]) -> Ranks:
        """Rank all scored tokens of `rows`, in order. Raises DataError for NaN, naming the document."""
        parts: dict[int, Ranks] = {}
        for indices in self._batches(rows):
            while indices:
                at_once = self.batch if self.head is not None else 1  # a row's own logits are large
                some, indices = indices[:at_once], indices[at_once:]
                chosen = [rows[i] for i in some]
                ranks = self._if_memory_allows(chosen)
                if ranks is None:
                    self._halve(len(chosen))
                    indices = some + indices
                    continue
                self._last = chosen, ranks
                ends = np.cumsum([len(row.scored) for row in chosen])[:-1]
                pieces = zip(*(np.split(column, ends) for column in ranks), strict=True)
                parts |= {i: Ranks(*piece) for i, piece in zip(some, pieces, strict=True)}
        if written := self.reader.written_to:
            what = f"the model writes to its weights when it reads some rows: {and_more(written)}"
            raise DataError(what, self.language.name, "They are as before. Save the model, and give its folder.")
        return Ranks(*(np.concatenate([parts[i][c] for i in range(len(rows))]) for c in range(3)))

    def _batches(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        """Yield the indices of rows that may be a batch, short rows first: the same whatever was done before.

        On a GPU these are rows of one width. On the CPU each is a pass of its own, and neighbours are
        about as long, so that threads end together.
        """
        order = sorted(range(len(rows)), key=lambda i: self._width(rows[i]))
        if self.language.device.type == "cpu":
            yield order
        else:
            yield from (list(same) for _, same in groupby(order, key=lambda i: self._width(rows[i])))

    def _width(self, row: Row) -> int:
        """Return the length that a row is read at: it depends on the row and the model, not on the row's neighbours."""
        length = len(row.ids)
        if not self.padded:
            return length
        width = -(-length // STEP) * STEP
        return width if self._longest is None else max(length, min(width, self._longest))

    def _if_memory_allows(self, rows: list[Row]) -> Ranks | None:
        """Rank rows; None if memory is short. Then the error is gone, and all memory that its traceback held."""
        try:
            return self._ranks(rows)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            return None

    def _ranks(self, rows: list[Row]) -> Ranks:
        if self.language.device.type != "cpu" or self.language.one_at_a_time:
            return self._part(rows)
        with one_thread_each() as threads, ThreadPoolExecutor(threads) as pool:
            shares = [rows[len(rows) * i // threads : len(rows) * (i + 1) // threads] for i in range(threads)]
            parts = list(pool.map(self._part, filter(None, shares)))
        return Ranks(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _part(self, rows: list[Row]) -> Ranks:
        """Rank rows in one go. Raises DataError naming document and position where a logit is NaN."""
        if self.head is None:
            parts = [self._by_logits(row, *self.reader.logits(self._padded([row]))[:1]) for row in rows]
        else:
            try:
                return _on_cpu(self._linear(rows, self.head))
            except RankError as error:  # NaN, or a processor's arithmetic: the logits tell which
                log.warning("%s: documents %s are ranked by plain products", error.what, _documents(rows))
            parts = [self._by_product(row, self.head) for row in rows]
        return Ranks(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _linear(self, rows: list[Row], head: Head) -> TokenRanks:
        place = head.weight.device  # where its rows lie: of a model in several places, one of them
        hidden, targets = self._hidden(rows).to(place), self._targets(rows).to(place)
        with torch.inference_mode(), torch.cuda.device_of(head.weight):  # type: ignore[no-untyped-call]
            return linear_rank(
                hidden,
                head.weight,
                targets,
                bias=head.bias,
                scale=head.scale,
                softcap=head.softcap,
                vocab=self.vocabulary,
                round_logits=self.rounding,
                backend=self.backend,
                compiled=self.compiled,
            )

    def _by_product(self, row: Row, head: Head) -> Ranks:
        """Rank a row by the plain product of the output layer."""
        parts = torch.split(self._hidden([row]).to(head.weight.device), PLACES)
        return self._counted(row, (head_logits(head, part) for part in parts))

    def _by_logits(self, row: Row, logits: torch.Tensor) -> Ranks:
        """Rank a row by the model's own logits [1, n, V], of which there is no second copy."""
        places = torch.split(torch.from_numpy(row.scored - 1).to(logits.device), PLACES)
        return self._counted(row, (logits[0, part] for part in places))

    def _counted(self, row: Row, parts: Iterable[torch.Tensor]) -> Ranks:
        ranks, targets = list[Ranks](), torch.split(self._targets([row]), PLACES)
        for i, (logits, target) in enumerate(zip(parts, targets, strict=True)):
            logits = logits[:, : self.vocabulary]
            logits = logits if self.rounding is None else logits.to(getattr(torch, self.rounding))
            try:
                ranks.append(_on_cpu(rank_logits(logits, target.to(logits.device))))
            except RankError as error:
                position = row.start + int(row.scored[i * PLACES + error.row])
                raise DataError(error.what, f"document {row.document}, position {position}", error.remedy) from None
        return Ranks(*(np.concatenate(column) for column in zip(*ranks, strict=True)))

    def _targets(self, rows: list[Row]) -> torch.Tensor:
        targets = np.concatenate([row.ids[row.scored] for row in rows])
        return torch.from_numpy(targets).to(self.language.device)

    def _hidden(self, rows: list[Row]) -> torch.Tensor:
        """Return what the output layer reads before the scored tokens of all rows: [T, d]."""
        if self.language.device.type == "cpu" and len(rows) > 1:  # each is a pass of its own
            return torch.cat([self._hidden([row]) for row in rows])
        ids = self._padded(rows)
        hidden = self.reader.hidden(ids)
        if hidden is None:
            raise DataError("the output layer is not what logits come from", self.language.name, "Report this.")
        places = np.concatenate([i * ids.shape[1] + row.scored - 1 for i, row in enumerate(rows)])
        return hidden.flatten(0, 1)[torch.from_numpy(places).to(hidden.device)]

    def _padded(self, rows: list[Row]) -> torch.Tensor:
        """Pad rows of one width to tokens [B, n]; the padding comes after all that is scored, and is not seen."""
        padded = np.zeros((len(rows), self._width(rows[0])), dtype=np.int64)
        for line, row in zip(padded, rows, strict=True):
            line[: len(row.ids)] = row.ids
        return torch.from_numpy(padded).to(self.language.device)

    def _halve(self, rows: int) -> None:
        if rows == 1:
            remedy = "Take a shorter --length, a smaller --dtype, or a device with more memory."
            raise DataError("out of memory with a single row at a time", str(self.language.device), remedy)
        self.batch = rows // 2
        if self.language.device.type == "cuda":
            torch.cuda.empty_cache()
        share = None
        if self._last is not None and len(self._last[0]) > self.batch:
            done, before = self._last
            self._last = None
            after = self.rank(done)
            share = float(np.mean((before.greater != after.greater) | (before.equal != after.equal)))
        self.halvings.append((self.batch, share))
        compared = "" if share is None else f"; {share:.4%} of the ranks of the last batch differ from before"
        log.warning("out of memory: going on with %d rows at a time%s", self.batch, compared)


def _on_cpu(ranks: TokenRanks) -> Ranks:
    return Ranks(*(column.cpu().numpy() for column in (ranks.greater, ranks.equal, ranks.nll.float())))


def _documents(rows: Sequence[Row]) -> str:
    return ", ".join(str(document) for document in sorted({row.document for row in rows}))


@contextmanager
def one_thread_each() -> Iterator[int]:
    """Use one thread for each operation while the rows run side by side; gives how many may run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # it holds for all threads of the process
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
