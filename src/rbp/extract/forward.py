"""Ranks of the scored tokens of some rows: the model's hidden states, its output layer, then the ranking."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from rbp.choices import Backend, Rounding
from rbp.errors import DataError, ParameterError, RankError
from rbp.extract.probe import Probe, probe_model
from rbp.extract.reader import Reader, out_of_memory
from rbp.kernel import EqualRows, count, equal_rows, exactly
from rbp.kernel.problem import Tally, TokenRanks, problem
from rbp.models.head import Head, find_head, head_logits, wide
from rbp.models.identity import fresh
from rbp.models.load import LanguageModel, looks_at_length
from rbp.names import and_more
from rbp.texts.protocol import Row, longest_input

_FINITE = "Check the weights, the model's dtype, and the scales and caps in its configuration."


def rank_logits(logits: torch.Tensor, target: torch.Tensor) -> TokenRanks:
    """Rank each target [T] among given logits [T, V]; top is the first of the highest, as in `linear_rank`.

    The −ln p of a target at −inf is infinite, as in `linear_rank`. Raises RankError where a logit is NaN or +inf.
    """
    if (nan := logits.isnan().any(1)).any():
        raise RankError("a logit is NaN", int(nan.int().argmax()), _FINITE)
    if (infinite := logits.isposinf().any(1)).any():
        raise RankError("a logit is +inf: no probability is defined", int(infinite.int().argmax()), _FINITE)
    top, logits = logits.argmax(1), wide(logits)
    truth = logits.gather(1, target[:, None])
    nll = logits.double().logsumexp(1) - truth[:, 0].double()
    nll = torch.where(truth[:, 0].isneginf(), torch.inf, nll)  # where all are −inf, the difference is undefined
    return TokenRanks((logits > truth).sum(1), (logits == truth).sum(1), nll.float(), top)


log = logging.getLogger(__name__)

PACK = 256  # rows from one answer of `rank_each` to the next
PLACES = 64  # whose logits are looked at together: each look copies them
STEP = 64  # rows are padded to the next multiple of this: large batches, and little that is computed for nothing


class Ranks(NamedTuple):
    """Of the scored tokens, one after the other: greater, equal (int64), nll (float32), and top (int64)."""

    greater: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    nll: npt.NDArray[np.float32]
    top: npt.NDArray[np.int64]


class Tokens(NamedTuple):
    """The scored tokens of a row with their ranks: positions among the row's tokens, and columns of a rank store."""

    position: npt.NDArray[np.int64]
    token: npt.NDArray[np.int64]
    greater: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    nll: npt.NDArray[np.float32]
    top: npt.NDArray[np.int64]


Columns = TypeVar("Columns", bound=tuple[npt.NDArray[Any], ...])
Finish: TypeAlias = Callable[[], Ranks]


class Copies:
    """Copies tallies to the host; from a GPU on a stream of their own, so that the next batch runs meanwhile."""

    def __init__(self, device: torch.device) -> None:
        self.stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def to_host(self, tally: Tally) -> tuple[Tally, Callable[[], None]]:
        """Begin to copy a tally; gives the copy, and what waits until it is whole."""
        if self.stream is None:
            return Tally(*(field.cpu() for field in tally)), lambda: None
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        with torch.cuda.stream(self.stream):
            copy = Tally(*(field.to("cpu", non_blocking=True) for field in tally))  # to pinned memory
        for field in tally:
            field.record_stream(self.stream)
        return copy, self.stream.record_event().synchronize


class Batch(NamedTuple):
    """Rows whose ranks are on their way: their indices among a pack's; wait, finish: for their ranks, in this order."""

    indices: list[int]
    rows: list[Row]
    wait: Callable[[], None]
    finish: Finish


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
            fault = f"the vocabulary is limited to {self.vocabulary} of {self.language.vocabulary} tokens"
            raise ParameterError(fault, "--vocab", "Give at least 1 and at most all.")
        config = self.language.model.config.to_dict()
        self._longest = longest_input(config)
        if self.padded is None:
            self.padded = self.language.device.type != "cpu" and not looks_at_length(config)
        self.halvings: list[tuple[int, float | None]] = []
        self._last: Batch | None = None
        self._taken(Probe(find_head(fresh(self.language.model)), False, frozenset(), self.padded))

    def _taken(self, probe: Probe) -> None:
        self.probe, self.head, self.padded = probe, probe.head, probe.padded
        self.reader: Reader = probe.reader(self.language)
        self._copies = Copies(self.language.device if self.head is None else self.head.weight.device)

    @property
    def rounding_of_logits(self) -> str:
        """Return the dtype that the logits which are compared are rounded to."""
        if self.rounding is not None:
            return self.rounding
        return self.language.dtype if self.head is None or self.language.dtype == "float64" else "float32"

    def check(self, rows: Sequence[Row], earlier: Probe | None = None) -> Probe:
        """Probe the model (`probe_model`); use the result for ranking, and return it."""
        width = self._width if self.padded else None
        self._taken(probe_model(self.language, rows, find_head(fresh(self.language.model)), width, earlier))
        return self.probe

    def hidden_or_logits(self, ids: torch.Tensor) -> torch.Tensor:
        """Return what is ranked of rows of one length [B, n]: what the output layer reads [B, n, d], or else logits.

        By a copy of the model as it is now.
        """
        reader = self.probe.reader(self.language)
        hidden = None if self.head is None else reader.hidden(ids)
        return reader.logits(ids)[0] if hidden is None else hidden

    def rank(self, rows: Sequence[Row]) -> Ranks:
        """Rank all scored tokens of `rows`, in order. Raises DataError for NaN, naming the document."""
        return next(self.rank_packs([rows]))

    def rank_packs(self, packs: Iterable[Sequence[Row]]) -> Iterator[Ranks]:
        """Rank packs of rows as `rank` does, one after the other.

        On a GPU a pack's ranks come when the next one is on its way: the program waits for the GPU once a pack, and the
        GPU does not wait for what is done with the ranks.
        """
        equal = None if self.head is None else equal_rows(self.head.weight, self.head.bias, self.vocabulary)
        begun, ahead = deque[list[Batch]](), int(self._copies.stream is not None)
        for rows in packs:
            begun.append(list(self._begun(rows, equal)))
            if len(begun) > ahead:
                yield self._ended(begun.popleft())
        while begun:
            yield self._ended(begun.popleft())

    def rank_each(self, rows: Sequence[Row]) -> Iterator[Tokens]:
        """Rank rows as `rank` does, `PACK` at a time, and yield the tokens of each."""
        packs = [rows[i : i + PACK] for i in range(0, len(rows), PACK)]
        for pack, ranks in zip(packs, self.rank_packs(packs), strict=True):
            for row, columns in zip(pack, _split(ranks, pack), strict=True):
                yield Tokens(row.scored, row.ids[row.scored], *columns)

    def _begun(self, rows: Sequence[Row], equal: EqualRows | None) -> Iterator[Batch]:
        """Set all rows going, batch by batch."""
        for indices in self._batches(rows):
            while indices:
                at_once = self.batch if self.head is not None else 1  # a row's own logits are large
                some, indices = indices[:at_once], indices[at_once:]
                chosen = [rows[i] for i in some]
                going = self._if_memory_allows(chosen, equal)
                if going is None:
                    self._halve(len(chosen))
                    indices = some + indices
                    continue
                self._last = Batch(some, chosen, *going)
                yield self._last

    def _ended(self, batches: Sequence[Batch]) -> Ranks:
        """Wait for all batches of a pack, and put their ranks in order."""
        batches[-1].wait()  # copies end in order, so that nothing else is waited for
        parts: dict[int, Ranks] = {}
        for indices, rows, _, finish in batches:
            parts |= zip(indices, _split(finish(), rows), strict=True)
        if written := self.reader.written_to:
            fault = f"the model writes to its weights when it reads some rows: {and_more(written)}"
            raise DataError(fault, self.language.name, "They are as before. Save the model, and give its folder.")
        return joined([parts[i] for i in sorted(parts)])

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
        if length - 1 == self._longest:  # the model has no place for the last token, which need not be read
            length -= 1
        if not self.padded:
            return length
        width = -(-length // STEP) * STEP
        return width if self._longest is None else max(length, min(width, self._longest))

    def _if_memory_allows(self, rows: list[Row], equal: EqualRows | None) -> tuple[Callable[[], None], Finish] | None:
        """Set rows going; None if memory is short. Then the error is gone, and all memory that its traceback held."""
        try:
            return self._going(rows, equal)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            return None

    def _going(self, rows: list[Row], equal: EqualRows | None) -> tuple[Callable[[], None], Finish]:
        if self.language.device.type != "cpu" or self.language.one_at_a_time:
            return self._part(rows, equal)
        with one_thread_each() as threads, ThreadPoolExecutor(threads) as pool:
            shares = [rows[len(rows) * i // threads : len(rows) * (i + 1) // threads] for i in range(threads)]
            parts = list(pool.map(lambda share: self._part(share, equal)[1](), filter(None, shares)))
        ranks = joined(parts)
        return lambda: None, lambda: ranks

    def _part(self, rows: list[Row], equal: EqualRows | None) -> tuple[Callable[[], None], Finish]:
        """Set rows going in one go. What finishes them raises DataError, naming the place, where a logit is NaN."""
        head = self.head
        if head is None:
            ranks = joined([self._by_logits(row, *self.reader.logits(self._padded([row]))[:1]) for row in rows])
            return lambda: None, lambda: ranks
        tally, wait = self._copies.to_host(self._tally(rows, head, equal))
        vocabulary = self.vocabulary or len(head.weight)

        def finish() -> Ranks:
            if bool((tally.impossible(vocabulary) | tally.total.isnan() | (tally.total == torch.inf)).any()):
                # NaN, an infinite logit, or a processor's arithmetic: the logits tell which
                documents = ", ".join(map(str, sorted({row.document for row in rows})))
                log.warning("documents %s are ranked by plain products: their counts cannot be", documents)
                return joined([self._by_product(row, head) for row in rows])
            return _on_cpu(tally.ranks(torch.float32))

        return wait, finish

    def _tally(self, rows: list[Row], head: Head, equal: EqualRows | None) -> Tally:
        """Tally rows where the head lies: of a model in several places, one of them. Waits for nothing."""
        targets, vocabulary = self._targets(rows), self.vocabulary or len(head.weight)
        if (highest := targets.max()) >= vocabulary:
            fault = f"the target {highest} lies outside 0 … {vocabulary - 1}"
            raise ParameterError(fault, "--vocab", "Check the tokenizer, and --vocab.")
        hidden = self._hidden(rows).to(head.weight.device)
        with exactly(head.weight.device), torch.cuda.device_of(head.weight):  # type: ignore[no-untyped-call]
            moved = _upload(targets, head.weight.device)
            scaled = head.bias, head.scale, head.softcap
            arguments = problem(hidden, head.weight, moved, *scaled, self.vocabulary, self.rounding, equal)
            return count(arguments, self.backend, self.compiled)

    def _by_product(self, row: Row, head: Head) -> Ranks:
        """Rank a row by the plain product of the output layer."""
        parts = torch.split(self._hidden([row]).to(head.weight.device), PLACES)
        return self._counted(row, (head_logits(head, part) for part in parts))

    def _by_logits(self, row: Row, logits: torch.Tensor) -> Ranks:
        """Rank a row by the model's own logits [1, n, V], of which there is no second copy."""
        places = torch.split(torch.from_numpy(row.scored - 1).to(logits.device), PLACES)
        return self._counted(row, (logits[0, part] for part in places))

    def _counted(self, row: Row, parts: Iterable[torch.Tensor]) -> Ranks:
        ranks, targets = list[Ranks](), torch.split(torch.from_numpy(self._targets([row])), PLACES)
        for i, (logits, target) in enumerate(zip(parts, targets, strict=True)):
            logits = logits[:, : self.vocabulary]
            logits = logits if self.rounding is None else logits.to(getattr(torch, self.rounding))
            try:
                ranks.append(_on_cpu(rank_logits(logits, target.to(logits.device))))
            except RankError as error:
                position = row.start + int(row.scored[i * PLACES + error.row])
                raise DataError(error.what, f"document {row.document}, position {position}", error.remedy) from None
        return joined(ranks)

    def _targets(self, rows: list[Row]) -> npt.NDArray[np.int64]:
        return np.concatenate([row.ids[row.scored] for row in rows])

    def _hidden(self, rows: list[Row]) -> torch.Tensor:
        """Return what the output layer reads before the scored tokens of all rows: [T, d]."""
        if self.language.device.type == "cpu" and len(rows) > 1:  # each is a pass of its own
            return torch.cat([self._hidden([row]) for row in rows])
        ids = self._padded(rows)
        hidden = self.reader.hidden(ids)
        if hidden is None:
            raise DataError("the output layer is not what logits come from", self.language.name, "Report this.")
        places = np.concatenate([i * ids.shape[1] + row.scored - 1 for i, row in enumerate(rows)])
        return hidden.flatten(0, 1)[_upload(places, hidden.device)]

    def _padded(self, rows: list[Row]) -> torch.Tensor:
        """Pad rows of one width to tokens [B, n]; the padding comes after all that is scored, and is not seen."""
        padded = np.zeros((len(rows), self._width(rows[0])), dtype=np.int64)
        for line, row in zip(padded, rows, strict=True):
            line[: len(row.ids)] = row.ids[: len(line)]
        return _upload(padded, self.language.device)

    def _halve(self, rows: int) -> None:
        if rows == 1:
            remedy = "Take a shorter --length, a smaller --dtype, or a device with more memory."
            raise DataError("out of memory with a single row at a time", str(self.language.device), remedy)
        self.batch = rows // 2
        if self.language.device.type == "cuda":
            torch.cuda.empty_cache()
        share = None
        if self._last is not None and len(self._last.rows) > self.batch:
            done, self._last = self._last, None
            before, after = self._ended([done._replace(indices=list(range(len(done.rows))))]), self.rank(done.rows)
            share = float(np.mean((before.greater != after.greater) | (before.equal != after.equal)))
        self.halvings.append((self.batch, share))
        compared = "" if share is None else f"; {share:.4%} of the ranks of the last batch differ from before"
        log.warning("out of memory: going on with %d rows at a time%s", self.batch, compared)


def _upload(values: npt.NDArray[np.int64], device: torch.device) -> torch.Tensor:
    """Copy values to a device; to a GPU from pinned memory, so that nothing waits."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def default_batch(device: torch.device) -> int:
    """Return how many rows are read at a time on a device, unless somebody says."""
    return 4 * torch.get_num_threads() if device.type == "cpu" else 32


def joined(parts: Sequence[Columns]) -> Columns:
    """Join named tuples of columns, one after the other."""
    return type(parts[0])(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _split(ranks: Ranks, rows: Sequence[Row]) -> Iterator[Ranks]:
    """Yield the ranks of each of the rows."""
    boundaries = np.cumsum([len(row.scored) for row in rows])[:-1]
    for piece in zip(*(np.split(column, boundaries) for column in ranks), strict=True):
        yield Ranks(*piece)


def _on_cpu(ranks: TokenRanks) -> Ranks:
    return Ranks(*(column.cpu().numpy() for column in (ranks.greater, ranks.equal, ranks.nll.float(), ranks.top)))


@contextmanager
def one_thread_each() -> Iterator[int]:
    """Use one thread for each operation while the rows run side by side; gives how many may run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # it holds for all threads of the process
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
