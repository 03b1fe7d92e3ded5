"""Ranks of the scored tokens of some rows: the model's hidden states, its output layer, then the ranking."""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from rbp.core.errors import DataError, ParameterError, RankError, RbpError, first_line
from rbp.ranks.kernel import Backend, linear_rank
from rbp.ranks.kernel.problem import Rounding, TokenRanks
from rbp.ranks.models import LanguageModel, looks_at_length
from rbp.ranks.protocols import Row, longest_input
from rbp.ranks.soundness import (
    Head,
    check_double,
    compared,
    differ,
    find_head,
    fresh,
    kept,
    same,
    sees_ahead,
    wide,
)


def rank_logits(logits: torch.Tensor, target: torch.Tensor) -> TokenRanks:
    """The ranks of target [T] among logits [T, V] that are at hand.

    The −ln p of a target at −inf is infinite, as in `linear_rank`. Raises RankError where a logit is NaN or +inf.
    """
    if (nan := logits.isnan().any(1)).any():
        raise RankError("a logit is NaN", int(nan.int().argmax()), "Check the weights and the model's dtype.")
    if (infinite := logits.isposinf().any(1)).any():
        remedy = "Check the weights and the model's dtype."
        raise RankError("a logit is +inf: no probability is defined", int(infinite.int().argmax()), remedy)
    logits = wide(logits)
    truth = logits.gather(1, target[:, None])
    nll = logits.double().logsumexp(1) - truth[:, 0].double()
    nll = torch.where(truth[:, 0].isneginf(), torch.inf, nll)  # where all are −inf, the difference is undefined
    return TokenRanks((logits > truth).sum(1), (logits == truth).sum(1), nll.float())


log = logging.getLogger(__name__)

STEP = 64  # rows are padded to the next multiple of this: large batches, and little that is computed for nothing


class Ranks(NamedTuple):
    """Of the scored tokens, one after the other: greater, equal (int64) and nll (float32)."""

    greater: npt.NDArray[np.int64]
    equal: npt.NDArray[np.int64]
    nll: npt.NDArray[np.float32]


class Nature(NamedTuple):
    """What `Ranker.check` finds out of a causal model that does not hang on its weights, by the names of `Ranker`."""

    steady: bool
    padded: bool


@dataclass
class Ranker:
    """Ranks rows of tokens with one model.

    batch: rows at a time; vocabulary: how many rows of the output layer count, None for all; rounding, compiled: see
    `linear_rank`. padded: whether rows are padded to few lengths; None: on a GPU, if the configuration allows it.
    halvings: each batch size that memory forced, and the share of the last batch's ranks that differ from then on.
    steady: whether the model keeps nothing of what it reads, which `check` finds out; else each pass is made by a copy.
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
        self.head: Head | None = find_head(self.language.model)
        config = self.language.model.config.to_dict()
        self._longest = longest_input(config)
        if self.padded is None:
            self.padded = self.language.device.type != "cpu" and not looks_at_length(config)
        self.halvings: list[tuple[int, float | None]] = []
        self.steady = False
        self._last: tuple[list[Row], Ranks] | None = None

    @property
    def outputs(self) -> int:
        """The entries of the output layer that count: V · d."""
        width = int(self.language.model.config.get_text_config().hidden_size)
        return (self.vocabulary or self.language.vocabulary) * width

    def check(self, rows: Sequence[Row], known: Nature | None = None) -> Nature:
        """Look at the model before the work: does it read the rows, is it causal, what may be taken for granted?

        Asked of the beginnings of a short, a middling and the longest row, and of the longest as a whole. Where the
        output layer's ranks are not those of the model's logits, these are taken from then on; where padding is seen,
        rows are read as they are. known: what this found of the same model with other weights: then the output layer
        alone is looked at. Raises DataError for a model that cannot read the rows or is not causal, ParameterError for
        float64 with a model that does not compute in it.
        """
        padded, self.padded = bool(self.padded), False  # one thing at a time
        by_length = sorted(rows, key=lambda row: len(row.ids))
        longest = by_length[-1]
        beginnings = [_beginning(by_length[i]) for i in sorted({0, len(rows) // 2, len(rows) - 1})]
        if self.language.dtype == "float64":
            with self._running(len(beginnings[-1].ids)):
                check_double(fresh(self.language.model), self._ids(beginnings[-1]))
        self.steady = known is not None and known.steady
        if self.head is None:
            log.warning("no single output matrix is found: the model's own logits are taken, which is slower")
        elif not all(map(self._head_agrees, beginnings)):
            log.warning("one product does not give the model's logits: its own logits are taken, which is slower")
            self.head = None
        if known is not None:
            self.padded = known.padded
            return known
        self._read_some(beginnings, longest)
        self.padded = padded
        if padded and not self._padding_is_unseen(rows):
            log.warning("the model looks at the length of its input: rows are read unpadded, which is slower")
            self.padded = False
        return Nature(self.steady, self.padded)

    def _ids(self, row: Row) -> torch.Tensor:
        return torch.from_numpy(row.ids)[None].to(self.language.device)

    def _reader(self) -> Any:
        """The model, or, unless it is known to keep nothing, a copy of it that has read nothing."""
        return self.language.model if self.steady else fresh(self.language.model)

    def _read_some(self, beginnings: Sequence[Row], longest: Row) -> None:
        """Find out whether the model is `steady`; raise DataError if what ranks are made of depends on later tokens.

        One copy reads a short row, the longest, which fails here and not after hours, and again shorter ones. If that
        leaves anything behind, what it gave is not to be compared, and all is read again, each time by a new copy.
        """
        last = [len(row.ids) - 1 for row in beginnings]
        cuts = [(row, (end // 4, end // 2, end)) for row, end in zip(beginnings, last, strict=True)]
        order = [cuts[0], (longest, (len(longest.ids) * 3 // 4,)), *cuts[1:], (beginnings[0], ())]
        copy = fresh(self.language.model)
        before = kept(copy)
        found = []
        for row, places in order:
            found.append(self._ahead(lambda: copy, row, places))
            self.steady = same(before, kept(copy))
            if not self.steady:
                log.info("the model keeps something of what it reads: each row is read by a copy that has read nothing")
                found = [self._ahead(self._reader, row, places) for row, places in order]
                break
        if any(found):
            what = "the model sees the tokens that it is asked to predict"
            kind = self.language.model.config.model_type
            raise DataError(what, kind, "Take a causal model, not a masked one.")

    def _ahead(self, reader: Callable[[], Any], row: Row, cuts: Sequence[int]) -> bool:
        """Whether what ranks are made of, before one of the cuts, depends on the tokens from there on."""
        language, ids = self.language, self._ids(row)
        with torch.inference_mode(), self._running(len(row.ids)):
            places = {max(1, cut) for cut in cuts}
            return sees_ahead(lambda i: self._made_of(reader(), i), ids, places, language.vocabulary, language.dtype)

    def _made_of(self, model: Any, ids: torch.Tensor) -> list[torch.Tensor]:
        """All that ranks are made of, for the tokens [1, n]: hidden states, and the logits where these are ranked."""
        seen = list[torch.Tensor]()
        if self.head is not None:
            return [self._outputs(model, ids)]
        layer = model.get_output_embeddings()
        hook = layer and layer.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        try:
            logits = self._logits(model, ids)
        finally:
            if hook is not None:
                hook.remove()
        return [each for each in (*seen, logits) if each.shape[:2] == ids.shape]

    def _head_agrees(self, row: Row) -> bool:
        """Whether the ranks that the output layer gives to `row` are those of the model's own logits."""
        assert self.head is not None  # noqa: S101  # for the type checker
        try:
            hidden = self._alone(row)
            if hidden.shape[1:] != self.head.weight.shape[1:]:
                return False
            with one_thread_each(), torch.inference_mode():  # as later: what is compiled for it is compiled once
                ours = self._linear([row])
                _ = ours.nll
        except (DataError, RankError):  # a backbone that does not run by itself, or a processor's arithmetic
            return False
        with torch.inference_mode(), self._running(len(row.ids)):
            logits = self._logits(self._reader(), self._ids(row))[0, row.scored - 1, : self.vocabulary]
            place = self.head.weight.device
            logits, hidden, targets = logits.to(place), hidden.to(place), self._targets([row]).to(place)
            ranks = ours.greater, ours.equal, ours.nll
            dtype = self.rounding or self.language.dtype
            return not bool(compared(logits, targets, ranks, dtype, hidden, self.head).wrong.any())

    def _alone(self, row: Row) -> torch.Tensor:
        """What the model gives for a row by itself."""
        with torch.inference_mode():
            return self._at_scored([row], self._outputs)

    def _padding_is_unseen(self, rows: Sequence[Row]) -> bool:
        """Whether the model gives the same for rows as they are and padded: of eight lengths, or all that there are."""
        some = {len(row.ids): row for row in rows if self._width(row) > len(row.ids)}
        lengths = sorted(some, key=lambda n: self._gap(some[n]))
        spread = {lengths[round(i)] for i in np.linspace(0, len(lengths) - 1, 7)} if some else set()
        for length in sorted({max(lengths, default=0), *spread} - {0}):  # the longest, and the most padded among them
            row = some[length]
            try:
                beside = self._alone(row)
            except DataError:  # positions that the model does not have
                return False
            self.padded = False
            alone = self._alone(row)
            self.padded = True
            if differ(alone, beside, self.language.dtype):
                return False
        return True

    def _gap(self, row: Row) -> int:
        return self._width(row) - len(row.ids)

    def read(self, ids: torch.Tensor) -> torch.Tensor:
        """What is ranked of rows of one length [B, n]: the last hidden states [B, n, d], or logits without a head."""
        with torch.inference_mode(), self._running(ids.shape[1]):
            return self._outputs(self._reader(), ids)

    def rank(self, rows: Sequence[Row]) -> Ranks:
        """The ranks of all scored tokens of `rows`, in order. Raises DataError for NaN, naming the document."""
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
        return Ranks(*(np.concatenate([parts[i][c] for i in range(len(rows))]) for c in range(3)))

    def _batches(self, rows: Sequence[Row]) -> Iterator[list[int]]:
        """The indices of rows that may be a batch, the short ones first: the same whatever was done before.

        On a GPU these are rows of one width. On the CPU each is a pass of its own, and those next to one another are
        about as long, so that threads end together.
        """
        order = sorted(range(len(rows)), key=lambda i: self._width(rows[i]))
        if self.language.device.type == "cpu":
            yield order
        else:
            yield from (list(same) for _, same in groupby(order, key=lambda i: self._width(rows[i])))

    def _width(self, row: Row) -> int:
        """The length that a row is read at: it depends on the row and the model, not on the row's neighbours."""
        length = len(row.ids)
        if not self.padded:
            return length
        width = -(-length // STEP) * STEP
        return width if self._longest is None else max(length, min(width, self._longest))

    def _if_memory_allows(self, rows: list[Row]) -> Ranks | None:
        """The ranks of rows, or None. Then the error is gone, and with it all that its traceback held in memory."""
        try:
            return self._ranks(rows)
        except RuntimeError as error:
            if not _out_of_memory(error):
                raise
            return None

    def _ranks(self, rows: list[Row]) -> Ranks:
        if self.language.device.type != "cpu" or self.language.places:  # parts that are fetched serve one at a time
            return self._part(rows)
        with one_thread_each() as threads, ThreadPoolExecutor(threads) as pool:
            shares = [rows[len(rows) * i // threads : len(rows) * (i + 1) // threads] for i in range(threads)]
            parts = list(pool.map(self._part, filter(None, shares)))
        return Ranks(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _part(self, rows: list[Row]) -> Ranks:
        """The ranks of rows in one go; if the output layer's cannot be had, from the model's own logits.

        Raises DataError naming document and position if these are NaN or infinite too.
        """
        with torch.inference_mode():
            if self.head is not None:
                try:
                    return _on_cpu(self._linear(rows))
                except RankError as error:  # NaN, or a processor's arithmetic: the logits tell which
                    reason = error.what
            parts = [self._own(row) for row in rows]
            if self.head is not None:
                named = ", ".join(str(document) for document in sorted({row.document for row in rows}))
                log.warning("%s: the model's own logits are taken for documents %s", reason, named)
            return Ranks(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _linear(self, rows: list[Row]) -> TokenRanks:
        assert self.head is not None  # noqa: S101  # for the type checker
        place = self.head.weight.device  # where its rows lie: of a model in several places, one of them
        hidden, targets = self._each(rows, self._outputs).to(place), self._targets(rows).to(place)
        with torch.cuda.device_of(self.head.weight):  # type: ignore[no-untyped-call]
            return linear_rank(
                hidden,
                self.head.weight,
                targets,
                bias=self.head.bias,
                scale=self.head.scale,
                softcap=self.head.softcap,
                vocab=self.vocabulary,
                round_logits=self.rounding,
                backend=self.backend,
                compiled=self.compiled,
            )

    def _own(self, row: Row) -> Ranks:
        """The ranks of a row from the model's own logits."""
        logits = self._each([row], self._logits)[:, : self.vocabulary]
        if self.rounding is not None:
            logits = logits.to(getattr(torch, self.rounding))
        try:
            return _on_cpu(rank_logits(logits, self._targets([row])))
        except RankError as error:
            position = row.start + int(row.scored[error.row])
            raise DataError(error.what, f"document {row.document}, position {position}", error.remedy) from None

    def _outputs(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        """What is ranked: the last hidden states [B, n, d], or the logits [B, n, V]."""
        if self.head is None:
            return self._logits(model, ids)
        hidden: torch.Tensor = model.base_model(input_ids=ids, use_cache=False)[0]
        return hidden

    def _logits(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits
        return logits

    def _targets(self, rows: list[Row]) -> torch.Tensor:
        targets = np.concatenate([row.ids[row.scored] for row in rows])
        return torch.from_numpy(targets).to(self.language.device)

    def _each(self, rows: list[Row], run: Callable[[Any, torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """What `run` gives at the positions before the scored ones of all rows: [T, width of the result]."""
        if self.language.device.type == "cpu":
            return torch.cat([self._at_scored([row], run) for row in rows])
        return self._at_scored(rows, run)

    def _at_scored(self, rows: list[Row], run: Callable[[Any, torch.Tensor], torch.Tensor]) -> torch.Tensor:
        width = self._width(rows[0])
        padded = np.zeros((len(rows), width), dtype=np.int64)
        for line, row in zip(padded, rows, strict=True):
            line[: len(row.ids)] = row.ids  # the padding comes after all that is scored, and is not seen
        ids = torch.from_numpy(padded).to(self.language.device)
        with self._running(width):
            out = run(self._reader(), ids)
        places = np.concatenate([i * width + row.scored - 1 for i, row in enumerate(rows)])
        return out.flatten(0, 1)[torch.from_numpy(places).to(out.device)]

    @contextmanager
    def _running(self, width: int) -> Iterator[None]:
        """While the model reads rows of `width` tokens: what its code raises, but for want of memory, as DataError."""
        try:
            yield
        except RbpError:
            raise
        except Exception as error:  # of any kind: a position beyond the last, a setting that is null
            if _out_of_memory(error):
                raise
            what = f"the model cannot read a row of {width} tokens: {first_line(error)}"
            remedy = "Check its config.json (pad_token_id, for one), or take a shorter --length."
            raise DataError(what, self.language.name, remedy) from None

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


def _beginning(row: Row) -> Row:
    """A row up to the 64th token that is scored of it."""
    scored = row.scored[:64]
    return Row(row.document, row.start, row.ids[: scored[-1] + 1], scored)


def _on_cpu(ranks: TokenRanks) -> Ranks:
    return Ranks(*(column.cpu().numpy() for column in (ranks.greater, ranks.equal, ranks.nll.float())))


def _out_of_memory(error: Exception) -> bool:
    # without a kind of its own on the CPU, from cuBLAS, and from CUDA where it loads a kernel
    said = "can't allocate memory", "ALLOC_FAILED", "out of memory"
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in said)


@contextmanager
def one_thread_each() -> Iterator[int]:
    """One thread for each operation while the rows run side by side; gives how many may run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # it holds for all threads of the process
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
