"""Which tokens of a corpus are scored, and in what context: from documents to rows, and from rows to packs.

A row is one stretch of one document, read by the model in one go. A pack is a fixed number of consecutive rows:
the unit of work, of storage and of resuming. Rows and packs follow from corpus, tokenizer and protocol alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from rbp.core.errors import DataError, ParameterError
from rbp.ranks.corpora import CORPORA, Corpus

Name = Literal["authors", "windows"]
Tokens: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Protocol:
    """How a corpus is scored.

    name: "authors" takes the first `documents` of the corpus shuffled with `seed`, cut to `length` tokens;
    "windows" takes every document whole, in windows of `length` tokens, each token scored once, with at least
    `context` tokens of its document before it (or all there are). tokens: a budget, after which either stops.
    pack: rows in a pack. Raises ParameterError for values that make no sense.
    """

    name: Name = "authors"
    length: int = 512
    context: int | None = None
    documents: int | None = None
    seed: int | None = None
    tokens: int | None = None
    pack: int = 64

    def __post_init__(self) -> None:
        if self.name not in get_args(Name):
            raise ParameterError(f"unknown protocol {self.name!r}", "--protocol", f"There is: {_listed(Name)}.")
        for name in ("length", "documents", "tokens", "pack"):
            value = getattr(self, name)
            least = 2 if name == "length" else 1
            if value is not None and value < least:
                raise ParameterError(f"{name} must be at least {least}, not {value}", f"--{name}", "Give more.")
        if self.context is not None and not 1 <= self.context < self.length:
            what = f"a context of {self.context} tokens does not fit windows of {self.length}"
            raise ParameterError(what, "--context", "Give at least 1 and less than --length.")

    def as_dict(self) -> dict[str, Any]:
        """All fields, for the digest of a rank store."""
        return asdict(self)


def protocol(
    name: str = "authors",
    *,
    length: int | None = None,
    context: int | None = None,
    documents: int | None = None,
    tokens: int | None = None,
    pack: int = 64,
) -> Protocol:
    """The protocol `name` with its defaults.

    authors: 1000 documents, shuffled with seed 42 as the paper's program does, cut to 512 tokens. windows: all
    documents in windows of 1024 tokens, of which half are context. Raises ParameterError for an unknown name,
    a value that makes no sense, and an option of the other protocol.
    """
    if name == "authors":
        if context is not None:
            raise ParameterError("the authors' protocol has no context", "--context", "Take --protocol windows.")
        taken = 1000 if documents is None else documents
        return Protocol("authors", 512 if length is None else length, None, taken, 42, tokens, pack)
    if name != "windows":
        raise ParameterError(f"unknown protocol {name!r}", "--protocol", f"There is: {_listed(Name)}.")
    length = 1024 if length is None else length
    return Protocol("windows", length, length // 2 if context is None else context, documents, None, tokens, pack)


def longest_input(config: dict[str, Any]) -> int | None:
    """How many tokens the model can read at once, where its configuration says so."""
    text = config.get("text_config") or config
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_target_positions"):
        if isinstance(text.get(name), int):
            return int(text[name])
    return None


def own_protocol(corpora: Sequence[str], where: str = "--protocol") -> str:
    """The protocol for texts that none is named for: the authors' for the paper's corpora, windows for others.

    Raises ParameterError where there are both.
    """
    published = {name in CORPORA for name in corpora}
    if len(published) > 1:
        what = "the paper's corpora are cut as the authors cut them, and other texts are read whole"
        raise ParameterError(what, where, "Ask for them apart, or name one for all: authors or windows.")
    return "authors" if True in published else "windows"


def window_length(configs: Sequence[dict[str, Any]]) -> int:
    """How many tokens at once all models of these configurations read: ranks compare where contexts are alike."""
    return min([1024, *(limit for config in configs if (limit := longest_input(config)) is not None)])


@dataclass(frozen=True)
class Row:
    """One stretch of a document for the model to read.

    document: its index in the corpus; start: the position in the document of the first token; ids: the tokens;
    scored: which of them are scored (indices into ids, at least 1, ascending).
    """

    document: int
    start: int
    ids: Tokens
    scored: Tokens


@dataclass(frozen=True)
class RowPlan:
    """All rows of a measurement, in order.

    read: of texts that are at hand as a whole, how many of their characters are read, of how many.
    """

    rows: Sequence[Row]
    pack: int
    read: tuple[int, int] | None = None

    @property
    def tokens(self) -> int:
        """How many tokens are scored."""
        return sum(len(row.scored) for row in self.rows)

    @property
    def tokens_read(self) -> int:
        """How many tokens the model reads, those of contexts again in each row."""
        return sum(len(row.ids) for row in self.rows)

    @property
    def packs(self) -> int:
        """How many packs there are."""
        return -(-len(self.rows) // self.pack)

    def rows_of(self, pack: int) -> Sequence[Row]:
        """The rows of one pack."""
        return self.rows[pack * self.pack : (pack + 1) * self.pack]


def added_tokens(tokenizer: Any) -> list[int]:
    """The tokens that a tokenizer puts around every text without declaring them as special, in ascending order."""
    ((_, ids, added),) = _tokenized(Corpus("", [""]), tokenizer, Protocol("windows"))
    return sorted({*ids[added].tolist()} - {*tokenizer.all_special_ids})


def plan_rows(corpus: Corpus, tokenizer: Any, chosen: Protocol) -> RowPlan:
    """Tokenize what `chosen` asks for, and lay it out in rows.

    Special tokens, and what the tokenizer itself puts around a text, are not scored, neither as input nor as target;
    the first token of a document has nothing before it and is never scored. Raises DataError if no token is left to
    score.
    """
    special = np.asarray(sorted(tokenizer.all_special_ids), dtype=np.int64)
    rows: list[Row] = []
    left, read = chosen.tokens, 0
    own = isinstance(corpus.documents, list)
    for document, ids, added in _tokenized(corpus, tokenizer, chosen):
        plain = ~(np.isin(ids, special) | added)
        scorable = np.flatnonzero(plain[1:] & plain[:-1]) + 1
        if left is not None:
            scorable = scorable[:left]
            left -= len(scorable)
        rows += _windows(document, ids, scorable, chosen)
        if own:
            read += _characters(corpus.documents[document], ids, scorable, tokenizer, chosen)
        if left == 0:
            break
    if not rows:
        what = "no token can be scored: no document has two plain tokens"
        raise DataError(what, corpus.name, "Give a corpus with more text.")
    return RowPlan(rows, chosen.pack, (read, sum(map(len, corpus.documents))) if own else None)


def _characters(text: str, ids: Tokens, scorable: Tokens, tokenizer: Any, chosen: Protocol) -> int:
    """How many characters of a document are read: all, or up to the last token that is scored, where it is cut."""
    if chosen.tokens is None and (chosen.name == "windows" or len(ids) < chosen.length):
        return len(text)
    last = ids[: scorable[-1] + 1] if len(scorable) else ids[:0]
    return min(len(text), len(tokenizer.decode(last, skip_special_tokens=True)))


def document_order(documents: int, chosen: Protocol) -> npt.NDArray[np.int64]:
    """The indices of the documents that the protocol takes, in its order.

    With a seed: the order of `datasets.Dataset.shuffle(seed)`, which permutes the whole split.
    """
    if chosen.seed is None:
        return np.arange(documents)[: chosen.documents]
    return np.random.default_rng(chosen.seed).permutation(documents)[: chosen.documents]


def _tokenized(corpus: Corpus, tokenizer: Any, chosen: Protocol) -> Iterator[tuple[int, Tokens, npt.NDArray[np.bool_]]]:
    """The documents: index, tokens, and which of these the tokenizer added, by what it says itself."""
    cut = {"truncation": True, "max_length": chosen.length} if chosen.name == "authors" else {}
    indices = document_order(len(corpus.documents), chosen)
    for first in range(0, len(indices), 64):
        some = indices[first : first + 64]
        texts = [corpus.documents[int(i)] for i in some]
        encoded = tokenizer(texts, verbose=False, return_special_tokens_mask=True, **cut)
        for i, ids, added in zip(some, encoded["input_ids"], encoded["special_tokens_mask"], strict=True):
            yield int(i), np.asarray(ids, dtype=np.int64), np.asarray(added, dtype=bool)


def _windows(document: int, ids: Tokens, scorable: Tokens, chosen: Protocol) -> Iterator[Row]:
    """Cut a document into rows. With context c and length n, row i covers [i·(n − c), i·(n − c) + n)."""
    if not len(scorable):
        return
    ids = ids[: scorable[-1] + 1]  # what follows the last scored token is not needed
    context = chosen.context or 0
    step = chosen.length - context
    done = 0
    for start in range(0, len(ids), step):
        stop = min(start + chosen.length, len(ids))
        mine = scorable[(scorable >= done) & (scorable < stop)]
        if len(mine):
            yield Row(document, start, ids[start : mine[-1] + 1], mine - start)
        done = stop
        if stop == len(ids):
            return


def _listed(kind: Any) -> str:
    return ", ".join(get_args(kind))
