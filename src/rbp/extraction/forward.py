"""Ranks of the scored tokens of some rows: the model's hidden states, then the ranking.

On the CPU every row is a forward pass of its own, and each thread does rows of its own from the tokens to the
ranks: so a row's bits depend on nothing but the row. (Threads inside an operation do change bits: they cut an
array anywhere, and a vector unit treats the ends of a piece by another formula. And they wait for one another.)
On a GPU a batch of rows of one width is one pass; if memory runs out, the batch is halved.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from rbp.errors import DataError, ParameterError, RankError
from rbp.extraction.head import Head, agrees, check_causal, find_head, rank_logits, rounding
from rbp.extraction.models import LanguageModel
from rbp.extraction.protocols import Row
from rbp.ranking import Backend, TokenRanks, linear_rank
from rbp.ranking.problem import Rounding

log = logging.getLogger(__name__)


class Ranks(NamedTuple):
    """Of the scored tokens, one after the other: greater, equal (int64) and nll (float32)."""

    greater: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    nll: npt.NDArray[np.float32]


@dataclass
class Ranker:
    """Ranks rows of tokens with one model.

    batch: rows at a time; vocabulary: how many rows of the output layer count, None for all; rounding: see
    `linear_rank`. halvings: each batch size that memory forced, and the share of the ranks of the last batch
    before it that differ from then on (None where there was none).
    """

    language: LanguageModel
    backend: Backend
    batch: int
    vocabulary: int | None = None
    rounding: Rounding | None = None

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ParameterError(f"a batch has at least 1 row, not {self.batch}", "--batch", "Give more.")
        if self.vocabulary is not None and not 1 <= self.vocabulary <= self.language.vocabulary:
            what = f"the vocabulary is limited to {self.vocabulary} of {self.language.vocabulary} tokens"
            raise ParameterError(what, "--vocab", "Give at least 1 and at most all.")
        self.head: Head | None = find_head(self.language.model)
        self.halvings: list[tuple[int, float | None]] = []
        self._last: tuple[list[Row], Ranks] | None = None

    @property
    def outputs(self) -> int:
        """The entries of the output layer that count: V · d."""
        width = int(self.language.model.config.get_text_config().hidden_size)
        return (self.vocabulary or self.language.vocabulary) * width

    def check(self, row: Row) -> None:
        """Look at the model on one row: is it causal, and do its output layer's ranks agree with its logits?

        Where they do not, the model's own logits are taken from then on, with a message. Raises DataError for a
        model that is not causal.
        """
        scored = row.scored[:64]
        short = Row(row.document, row.start, row.ids[: scored[-1] + 1], scored)
        ids = torch.from_numpy(short.ids)[None].to(self.language.device)
        check_causal(self.language, ids)
        if self.head is None:
            log.warning("no single output matrix is found: the model's own logits are taken, which is slower")
            return
        with _one_thread_each():  # as later: what is compiled for it is compiled once, before threads need it
            ours = self._named([short], self._linear)
        with torch.inference_mode():
            logits = self.language.model(input_ids=ids, use_cache=False).logits[0, scored - 1, : self.vocabulary]
        slack = rounding(logits, self.rounding or self.language.dtype)
        if not agrees(logits, ids[0, scored], ours, slack):
            log.warning("the output layer does more than one product: the model's own logits are taken, slower")
            self.head = None

    def rank(self, rows: Sequence[Row]) -> Ranks:
        """The ranks of all scored tokens of `rows`, in order. Raises DataError for NaN, naming the document."""
        parts: dict[int, Ranks] = {}
        for indices in self._batches(rows):
            while indices:
                at_once = self.batch if self.head is not None else 1  # a row's own logits are large
                some, indices = indices[:at_once], indices[at_once:]
                chosen = [rows[i] for i in some]
                try:
                    ranks = self._ranks(chosen)
                except RuntimeError as error:  # on the CPU, too little memory is no more than that
                    if not (isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)):
                        raise
                    self._halve(len(chosen))
                    indices = some + indices
                    continue
                self._last = chosen, ranks
                ends = np.cumsum([len(row.scored) for row in chosen])[:-1]
                pieces = zip(*(np.split(column, ends) for column in ranks), strict=True)
                parts |= {i: Ranks(*piece) for i, piece in zip(some, pieces, strict=True)}
        return Ranks(*(np.concatenate([parts[i][c] for i in range(len(rows))]) for c in range(3)))

    def _batches(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        """The indices of rows of one width together: the same batches whatever was done before."""
        for width in sorted({row.width for row in rows}):
            yield [i for i, row in enumerate(rows) if row.width == width]

    def _ranks(self, rows: list[Row]) -> Ranks:
        if self.language.device.type != "cpu":
            return self._part(rows)
        with _one_thread_each() as threads, ThreadPoolExecutor(threads) as pool:
            shares = [rows[len(rows) * i // threads : len(rows) * (i + 1) // threads] for i in range(threads)]
            parts = list(pool.map(self._part, filter(None, shares)))
        return Ranks(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _part(self, rows: list[Row]) -> Ranks:
        ranks = self._named(rows, self._linear if self.head is not None else self._own)
        columns = (ranks.greater, ranks.equal, ranks.nll.float())
        return Ranks(*(column.cpu().numpy() for column in columns))

    def _named(self, rows: list[Row], ranked: Callable[[list[Row]], TokenRanks]) -> TokenRanks:
        """What `ranked` gives for rows; an error in a row of its numbers names document and position."""
        try:
            with torch.inference_mode():
                ranks = ranked(rows)
                _ = ranks.nll  # which raises where it is undefined
                return ranks
        except RankError as error:
            places = [(row.document, row.start + int(position)) for row in rows for position in row.scored]
            document, position = places[error.row]
            raise DataError(error.what, f"document {document}, position {position}", error.remedy) from None

    def _linear(self, rows: list[Row]) -> TokenRanks:
        assert self.head is not None  # noqa: S101  # for the type checker
        hidden = self._each(rows, lambda ids: self.language.model.base_model(input_ids=ids, use_cache=False)[0])
        return linear_rank(
            hidden,
            self.head.weight,
            self._targets(rows),
            bias=self.head.bias,
            scale=self.head.scale,
            softcap=self.head.softcap,
            vocab=self.vocabulary,
            round_logits=self.rounding,
            backend=self.backend,
        )

    def _own(self, rows: list[Row]) -> TokenRanks:
        """The same from the model's own logits."""
        logits = self._each(rows, lambda ids: self.language.model(input_ids=ids, use_cache=False).logits)
        logits = logits[:, : self.vocabulary]
        if self.rounding is not None:
            logits = logits.to(getattr(torch, self.rounding))
        return rank_logits(logits, self._targets(rows))

    def _targets(self, rows: list[Row]) -> torch.Tensor:
        targets = np.concatenate([row.ids[row.scored] for row in rows])
        return torch.from_numpy(targets).to(self.language.device)

    def _each(self, rows: list[Row], run: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """What `run` gives at the positions before the scored ones of all rows: [T, width of the result]."""
        if self.language.device.type == "cpu":
            return torch.cat([self._at_scored([row], run) for row in rows])
        return self._at_scored(rows, run)

    def _at_scored(self, rows: list[Row], run: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        ids = np.zeros((len(rows), rows[0].width), dtype=np.int64)
        for line, row in zip(ids, rows, strict=True):
            line[: len(row.ids)] = row.ids  # the padding comes after all that is scored, and is not seen
        out = run(torch.from_numpy(ids).to(self.language.device))
        places = np.concatenate([i * row.width + row.scored - 1 for i, row in enumerate(rows)])
        return out.flatten(0, 1)[torch.from_numpy(places).to(out.device)]

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


@contextmanager
def _one_thread_each() -> Iterator[int]:
    """One thread for each operation while the rows run side by side; gives how many may run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # it holds for all threads of the process
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
