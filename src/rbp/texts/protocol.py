"""Choose which tokens of a corpus are scored, and in what context: from documents to rows, from rows to packs.

A row is one stretch of one document, read by the model in one go. A pack is a fixed number of consecutive rows:
the unit of work, of storage and of resuming. Rows and packs follow from corpus, tokenizer and protocol alone.
"""

import itertools
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from rbp.errors import DataError, ParameterError, first_line
from rbp.models.tokenizers import must_not_draw, must_not_swell, panic_as_error
from rbp.texts.corpora import CORPORA, Corpus, Unread

log = logging.getLogger(__name__)

Name = Literal["authors", "windows"]
Bos = Literal["auto", "always", "never"]
Special = Literal["token", "text"]
Score = Literal["special", "first"]
Tokens: TypeAlias = npt.NDArray[np.int64]
Added: TypeAlias = npt.NDArray[np.bool_]

#: tokens before a cut through a text that the rest of it might change; pieces of words are a few tokens long
_MARGIN = 64
#: the end of a word: no run of letters, digits or other marks goes on there, so that none is cut in the middle
_WORD_END = re.compile(r"[^\W\d_](?=\W)")
#: characters of a text that are tokenized twice, to see whether they are cut alike
_SAMPLE = 2**10
_PROMPT, _BOTH, _TEXT = range(3)  # whose a token is: see `_owners`
_AS_TEXT = "split_special_tokens"  # what tokenizers call --special text
#: a token that stands for one byte where the vocabulary lacks the character
_BYTE = re.compile("<0x[0-9A-F]{2}>")


@dataclass(frozen=True)
class Protocol:
    """How a corpus is scored.

    name: "authors" takes the first `documents` of the corpus shuffled with `seed`, cut to `length` tokens;
    "windows" takes every document whole, in windows of `length` tokens, each token scored once, with at least
    `context` tokens of its document before it (or all there are). tokens: a budget, after which either stops.
    pack: rows in a pack. bos: which tokens are put before every window (`opening`). special: whether special tokens
    that are written out in a text are read as such, or as plain text. score: what is scored beside plain tokens after
    plain ones: "special" tokens that are written out in a text, and what follows them; the "first" token of each
    document, after the opening's. Raises ParameterError for values that make no sense.
    """

    name: Name = "authors"
    length: int = 512
    context: int | None = None
    documents: int | None = None
    seed: int | None = None
    tokens: int | None = None
    pack: int = 64
    bos: Bos = "auto"
    special: Special = "token"
    score: Sequence[Score] = ()

    def __post_init__(self) -> None:
        if self.name not in get_args(Name):
            raise ParameterError(f"unknown protocol {self.name!r}", "--protocol", f"There is: {_listed(Name)}.")
        for name, kind in (("bos", Bos), ("special", Special)):
            if (value := getattr(self, name)) not in get_args(kind):
                raise ParameterError(f"{name} cannot be {value!r}", f"--{name}", f"There is: {_listed(kind)}.")
        if strange := [entry for entry in self.score if entry not in get_args(Score)]:
            raise ParameterError(f"score cannot be {strange[0]!r}", "--score", f"There is: {_listed(Score)}.")
        if self.special == "text" and "special" in self.score:
            fault = "special tokens that are read as plain text are scored as plain text"
            raise ParameterError(fault, "--special, --score", "Leave one of them out.")
        for name in ("length", "documents", "tokens", "pack"):
            value = getattr(self, name)
            least = 2 if name == "length" else 1
            if value is not None and value < least:
                raise ParameterError(f"{name} must be at least {least}, not {value}", f"--{name}", "Give more.")
        if self.context is not None and not 1 <= self.context < self.length:
            fault = f"a context of {self.context} tokens does not fit windows of {self.length}"
            raise ParameterError(fault, "--context", "Give at least 1 and less than --length.")

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, for the digest of a rank store; those that came later only if they are not the default."""
        usual = {"bos": "auto", "special": "token", "score": ()}
        options = {**asdict(self), "score": tuple(sorted({*self.score}))}
        return {name: value for name, value in options.items() if usual.get(name) != value}


def protocol(
    name: str = "authors",
    *,
    length: int | None = None,
    context: int | None = None,
    documents: int | None = None,
    tokens: int | None = None,
    pack: int = 64,
    bos: Bos = "auto",
    special: Special = "token",
    score: Sequence[Score] = (),
    configs: Sequence[dict[str, Any]] = (),
) -> Protocol:
    """Make the protocol `name` with its defaults.

    authors: 1000 documents, shuffled with seed 42 as the paper's program does, cut to 512 tokens. windows: all
    documents in windows of 1024 tokens, or as many as all models of `configs` read, of which half are context. Raises
    ParameterError for an unknown name, a value that makes no sense, and an option of the other protocol.
    """
    if name == "authors":
        if context is not None:
            raise ParameterError("the authors' protocol has no context", "--context", "Take --protocol windows.")
        taken = 1000 if documents is None else documents
        length = 512 if length is None else length
        return Protocol("authors", length, None, taken, 42, tokens, pack, bos, special, score)
    length = window_length(configs) if length is None else length
    context = length // 2 if context is None else context
    return Protocol(name, length, context, documents, None, tokens, pack, bos, special, score)  # type: ignore[arg-type]


# positions begin after the padding token's id; on a GPU a position beyond the last ends all work of the process
_AFTER_PADDING = (
    "camembert",
    "data2vec-text",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)


def longest_input(config: dict[str, Any]) -> int | None:
    """Return how many tokens the model can read at once, where its configuration says so."""
    text = config.get("text_config") or config
    before = text.get("pad_token_id") if text.get("model_type") in _AFTER_PADDING else None
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_target_positions"):
        if isinstance(text.get(name), int):
            return int(text[name]) - (0 if before is None else before + 1)
    return None


def default_protocol(corpora: Sequence[str], where: str = "--protocol") -> str:
    """Name the protocol for texts where none is given: the authors' for the paper's corpora, windows for others.

    Raises ParameterError where there are both.
    """
    published = {name in CORPORA for name in corpora}
    if len(published) > 1:
        fault = "the paper's corpora are cut as the authors cut them, and other texts are read whole"
        raise ParameterError(fault, where, "Ask for them apart, or name one for all: authors or windows.")
    return "authors" if True in published else "windows"


def window_length(configs: Sequence[dict[str, Any]]) -> int:
    """Return how many tokens at once all models of these configurations read: ranks need alike contexts to compare."""
    return min([1024, *(limit for config in configs if (limit := longest_input(config)) is not None)])


@dataclass(frozen=True)
class Row:
    """One stretch of a document for the model to read.

    document: its index in the corpus; ids: the tokens, `opening` first; scored: which of them are scored
    (indices into ids, at least 1, ascending); start + i: the position of ids[i] among the tokens that the tokenizer
    gives for the document, wherever a window begins and whatever is put before it.
    """

    document: int
    start: int
    ids: Tokens
    scored: Tokens


@dataclass(frozen=True)
class RowPlan:
    """All rows of a measurement, in order.

    read: of texts that are at hand as a whole, how many of their characters are read, of how many. not_scored: how many
    of the tokens that are read are not scored, by the reason: first (of a document), unknown (to the tokenizer),
    special (written out in the text), after_unknown, after_special, prompt, straddling (begun in the prompt). bytes:
    how many bytes of the text, in UTF-8, the scored tokens stand for; None where the tokenizer does not say which
    characters are a token's. documents: in how many a token is scored, of how many that are read.
    """

    rows: Sequence[Row]
    pack: int
    read: tuple[int, int] | None = None
    not_scored: dict[str, int] = field(default_factory=dict)
    bytes: int | None = None
    documents: tuple[int, int] = (0, 0)

    @property
    def tokens(self) -> int:
        """Count the tokens that are scored."""
        return sum(len(row.scored) for row in self.rows)

    @property
    def tokens_read(self) -> int:
        """Count the tokens that the model reads, contexts again in each row."""
        return sum(len(row.ids) for row in self.rows)

    @property
    def packs(self) -> int:
        """Count the packs."""
        return -(-len(self.rows) // self.pack)

    def rows_of(self, pack: int) -> Sequence[Row]:
        """Return the rows of one pack."""
        return self.rows[pack * self.pack : (pack + 1) * self.pack]


class Encoded(NamedTuple):
    """The tokens of a text, and which of them the tokenizer added.

    If it says which characters a token is: how many bytes of the text each is (those of all tokens of a text add up to
    the text's), and at which character it ends; 0 for added ones.
    """

    ids: Tokens
    added: Added
    sizes: Tokens | None = None
    ends: Tokens | None = None

    def up_to(self, count: int) -> "Encoded":
        """Return the first so many tokens."""
        return Encoded(*(None if values is None else values[:count] for values in self))  # type: ignore[arg-type]


def added_tokens(tokenizer: Any) -> list[int]:
    """Return the tokens that a tokenizer puts around every text without declaring them special, in ascending order."""
    ((ids, added, *_),) = _encoded(tokenizer, [""], Protocol("windows"))
    return sorted({*ids[added].tolist()} - {*tokenizer.all_special_ids})


def opening(tokenizer: Any, bos: Bos) -> list[int]:
    """Return the tokens that are put before every window; none of them is scored.

    auto: what the tokenizer puts before every text, if anything; always: where it puts none, its BOS token, or else
    its EOS token, with which GPT-2 and others begin; never: none. Raises ParameterError where it has neither token.
    """
    ((ids, added, *_),) = _encoded(tokenizer, ["a"], Protocol("windows"))
    leading: list[int] = ids[: _leading(added)].tolist()
    if bos == "never":
        return []
    if bos == "auto" or leading:
        return leading
    for name in ("bos_token_id", "eos_token_id"):
        if (token := getattr(tokenizer, name, None)) is not None:
            return [int(token)]
    raise ParameterError("the tokenizer has neither a BOS nor an EOS token", "--bos", "Give auto or never.")


def opening_entry(tokenizer: Any, bos: Bos) -> dict[str, list[str]]:
    """Return the names of the tokens put before every window, as "bos", for a manifest; {} where there are none."""
    names = [str(tokenizer.convert_ids_to_tokens(token)) for token in opening(tokenizer, bos)]
    return {"bos": names} if names else {}


def plan_rows(corpus: Corpus, tokenizer: Any, chosen: Protocol) -> RowPlan:
    """Tokenize what `chosen` asks for, and lay it out in rows.

    Special tokens, and what is put around a text, are not scored, neither as input nor as target, and the first token
    of a document has nothing before it: `Protocol.score` says otherwise. Of a document with a prompt the tokens of the
    rest alone are scored. It is tokenized with its prompt, as one text: a token that straddles the boundary is scored
    if it has only white space of the prompt. Warnings say how many tokens, and documents, are left out so.
    Raises DataError if no token is left to score, and for a tokenizer that draws its tokens, makes far more of them
    than the text has bytes, or fails; ParameterError where a window has no room for its opening, where the first token
    is to be scored and nothing is before it, and for prompts where the tokenizer does not say where its tokens lie.
    """
    must_not_draw(tokenizer, corpus.name)
    must_not_swell(tokenizer, corpus.name)
    unknown = unknown_token(tokenizer)
    others = [] if "special" in chosen.score else tokenizer.all_special_ids
    apart = np.asarray(sorted({*others, unknown}), dtype=np.int64)
    front = opening(tokenizer, chosen.bos)
    if "first" in chosen.score and not front:
        fault = "the first token of a document has nothing before it that it could be predicted from"
        raise ParameterError(fault, f"{corpus.name}, --score first", "Give --bos always as well.")
    if len(front) + (chosen.context or 0) >= chosen.length:
        fault = f"windows of {chosen.length} tokens have no room beside their opening and context"
        raise ParameterError(fault, "--length", f"Give more than {len(front) + (chosen.context or 0)}.")
    rows: list[Row] = []
    left, read, documents, doubled = chosen.tokens, 0, 0, 0
    size: int | None = 0
    not_scored: Counter[str] = Counter()
    in_memory = isinstance(corpus.documents, list)
    for document, encoded in _tokenized(corpus, tokenizer, chosen, front, apart):
        ids, added, sizes, _ = encoded
        odd = ~added & np.isin(ids, apart)
        if chosen.special == "text" and (odd & (ids != unknown)).any():
            fault = "the tokenizer reads special tokens in a text as such, whatever it is asked for"
            raise ParameterError(fault, f"{corpus.name}, --special", "Give --special token.")
        documents, begin = documents + 1, _leading(added)
        owner = _owners(corpus.prompt(document), encoded, corpus.name)
        scorable = _scorable(odd | added)
        if "first" in chosen.score and begin < len(ids) and not odd[begin]:
            scorable = np.union1d(scorable, [begin])
        scorable = scorable[owner[scorable] == _TEXT]
        if left is not None:
            scorable = scorable[:left]
            left -= len(scorable)
        doubled += ids[: begin + 1].tolist()[begin:] == front[-1:] != []
        rows += _windows(document, ids, scorable, chosen, front, begin)
        end = scorable[-1] + 1 if left == 0 and len(scorable) else len(ids)
        not_scored.update(_reasons(ids[:end], odd[:end], added[:end], unknown, owner[:end]))
        if "first" in chosen.score:
            del not_scored["first"]
        size = None if size is None or sizes is None else size + int(sizes[scorable].sum())
        if in_memory:
            read += _characters(corpus.documents[document], ids, scorable, tokenizer, chosen)
        if left == 0:
            break
    if not rows and not not_scored and any(text.strip() for text in corpus.documents):
        fault = "the tokenizer makes no tokens of the texts"
        raise DataError(fault, corpus.name, "It may be the empty one that transformers makes for a folder without one.")
    if not rows:
        fault = "no token can be scored: no document has two plain tokens"
        raise DataError(fault, corpus.name, "Give a corpus with more text.")
    characters = (read, sum(map(len, corpus.documents))) if in_memory else None
    counts = len({row.document for row in rows}), documents
    plan = RowPlan(rows, chosen.pack, characters, dict(not_scored), size, counts)
    if words := left_out(plan.not_scored):
        log.warning("%s: %s tokens are scored; not scored are %s", corpus.name, f"{plan.tokens:,}", words)
    if words := without_scores(counts):
        log.warning("%s: %s", corpus.name, words)
    if doubled:
        token = tokenizer.convert_ids_to_tokens(front[-1])
        warning = "%s: %s documents begin with %s, which also precedes each window. Remove it from the texts, or give"
        log.warning(f"{warning} --bos never", corpus.name, f"{doubled:,}", token)
    if chosen.special == "token" and plan.not_scored.get("special") and getattr(tokenizer, _AS_TEXT, False):
        warning = "%s: special tokens in the text are read as such; the tokenizer's own setting (%s) is --special text"
        log.warning(warning, corpus.name, _AS_TEXT)
    return plan


def unknown_token(tokenizer: Any) -> int:
    """Return the token for what the tokenizer does not know; −1 where it has none, or it has another meaning too."""
    token = getattr(tokenizer, "unk_token_id", None)
    if token is None and (raw := getattr(tokenizer, "backend_tokenizer", None)) is not None:
        model = json.loads(raw.to_str())["model"]  # it may have one that nothing declares
        name = model.get("unk_token")
        token = raw.token_to_id(name) if name else model.get("unk_id")
    others = {getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos")}
    return -1 if token is None or token in others else int(token)


def left_out(not_scored: dict[str, int]) -> str:
    """Say how many tokens are not scored, and why, without the first tokens of documents, which never are."""
    reasons = {
        "unknown": "unknown to the tokenizer",
        "after_unknown": "after unknown ones",
        "special": "special tokens in the text (--score special scores them, --special text reads them as text)",
        "after_special": "after special ones",
        "prompt": "of prompts",
        "straddling": "begun in the prompt and ended after it",
    }
    return ", ".join(f"{not_scored[name]:,} {reason}" for name, reason in reasons.items() if not_scored.get(name))


def without_scores(documents: tuple[int, int]) -> str:
    """Say how many of the documents that are read hold no scored token; "" if none: see `RowPlan`."""
    scored, read = documents
    few = f"{read - scored:,} of {read:,} documents have no scored token, such as empty ones"
    return "" if scored == read else few


def _owners(prompt: str, encoded: Encoded, where: str) -> Tokens:
    """Return whether each token is of the prompt (_PROMPT), of both (_BOTH), or of the text after it (_TEXT).

    A token has what lies between the end of the one before it and its own.
    """
    ids, added, _, ends = encoded
    if not prompt:
        return np.full(len(ids), _TEXT)
    if ends is None:
        fault = "the tokenizer does not say which characters its tokens are: prompt and text cannot be told apart"
        raise ParameterError(fault, where, "Give a tokenizer with a tokenizer.json.")
    begins = np.concatenate([[0], np.maximum.accumulate(ends)[:-1]])
    after = begins >= len(prompt.rstrip())
    return np.where((ends <= len(prompt)) | added, _PROMPT, np.where(after, _TEXT, _BOTH))


def _reasons(ids: Tokens, odd: Added, added: Added, unknown: int, owner: Tokens) -> dict[str, int]:
    """Count the tokens of a document that are not scored, by the reason: see `RowPlan`."""
    strange, own = ids == unknown, owner == _TEXT
    before, after = odd[:-1], (~(odd | added) & own)[1:]
    begin = _leading(added)
    reasons = {
        "first": int(not added.all() and not odd[begin] and own[begin]),
        "unknown": int((odd & strange & own).sum()),
        "special": int((odd & ~strange & own).sum()),
        "after_unknown": int((before & strange[:-1] & after).sum()),
        "after_special": int((before & ~strange[:-1] & after).sum()),
        "prompt": int((~added & (owner == _PROMPT)).sum()),
        "straddling": int((owner == _BOTH).sum()),
    }
    return {reason: count for reason, count in reasons.items() if count}


def _scorable(apart: Added) -> Tokens:
    """Return the places of plain tokens that follow a plain one; apart: which tokens are not plain."""
    return np.flatnonzero(~(apart[1:] | apart[:-1])) + 1


def _leading(added: Added) -> int:
    """Count the tokens that are put before the text."""
    return len(added) if added.all() else int(np.argmin(added))


def _characters(text: str, ids: Tokens, scorable: Tokens, tokenizer: Any, chosen: Protocol) -> int:
    """Count the characters of a document that are read: all, or up to the last scored token, where it is cut."""
    if chosen.tokens is None and (chosen.name == "windows" or len(ids) < chosen.length):
        return len(text)
    last = ids[: scorable[-1] + 1] if len(scorable) else ids[:0]
    return min(len(text), len(tokenizer.decode(last, skip_special_tokens=True)))


def _sizes(text: str, ids: Tokens, offsets: Tokens, tokenizer: Any, complete: bool) -> Tokens:
    """Count the bytes of a text, in UTF-8, that each of its tokens stands for.

    offsets: the first and the last character of each, [n, 2]. A token has what lies between the end of the one before
    it and its own (a space that some tokenizers leave out, too); tokens that share a character divide its bytes by what
    they are written with, which for tokens of bytes is right to the byte. complete: the tokens are all of the text's.
    """
    ends = np.maximum.accumulate(offsets[:, 1])
    if complete:
        ends[-1] = len(text)
    points = np.frombuffer(text[: ends[-1]].encode("utf-32-le"), np.uint32)
    before = np.concatenate([[0], np.cumsum(1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000))])
    first = np.concatenate([[True], offsets[1:, 0] >= ends[:-1]])  # which tokens share no character with the last
    run, lasts = np.cumsum(first) - 1, np.append(np.flatnonzero(first)[1:], len(ids)) - 1
    weights = np.ones(len(ids), np.int64)
    shared = np.bincount(run)[run] > 1
    if shared.any():
        kinds, places = np.unique(ids[shared], return_inverse=True)
        pieces = map(str, tokenizer.convert_ids_to_tokens(kinds.tolist()))
        weights[shared] = np.array([1 if _BYTE.fullmatch(piece) else max(1, len(piece)) for piece in pieces])[places]
    weight, total = np.cumsum(weights), before[ends[lasts]]
    weight_before, total_before = (np.append(0, sums[:-1])[run] for sums in (weight[lasts], total))
    part = (weight - weight_before) / (weight[lasts][run] - weight_before)
    ending = total_before + np.rint(part * (total[run] - total_before)).astype(np.int64)
    sizes: Tokens = np.diff(ending, prepend=0)
    return sizes


def document_order(documents: int, chosen: Protocol) -> npt.NDArray[np.int64]:
    """Return the indices of the documents that the protocol takes, in its order.

    With a seed: the order of `datasets.Dataset.shuffle(seed)`, which permutes the whole split.
    """
    if chosen.seed is None:
        return np.arange(documents)[: chosen.documents]
    return np.random.default_rng(chosen.seed).permutation(documents)[: chosen.documents]


def _tokenized(
    corpus: Corpus, tokenizer: Any, chosen: Protocol, front: Sequence[int], apart: Tokens
) -> Iterator[tuple[int, Encoded]]:
    """Yield the documents, each with its index."""
    most = None
    if chosen.name == "authors":  # as many tokens of the text as there is room for beside the opening
        most = chosen.length - len(front) + len(opening(tokenizer, "auto"))
    documents = corpus.documents
    if isinstance(documents, Unread) and chosen.seed is None:
        some = itertools.count() if chosen.documents is None else range(chosen.documents)
        indices: Iterator[int] = itertools.takewhile(documents.has, some)
    else:
        indices = map(int, document_order(len(documents), chosen))
    firsts = [*itertools.islice(indices, 16)]
    indices = itertools.chain(firsts, indices)
    sample = [corpus.beginning(i, _SAMPLE) for i in firsts]
    once, again = ([encoded.ids.tolist() for encoded in _encoded(tokenizer, sample, chosen)] for _ in range(2))
    if once != again:
        fault = "the tokenizer gives other tokens for one text each time"
        raise DataError(fault, corpus.name, "Switch off what draws in it, such as sampling or dropout.")
    if chosen.tokens is not None:
        for i in indices:
            if corpus.prompt(i):  # however much of it there is, none of it is scored
                yield i, _encoded(tokenizer, [corpus.documents[i]], chosen, most)[0]
            else:
                yield i, _enough(partial(corpus.beginning, i), tokenizer, chosen, most, apart)
        return
    while batch := [*itertools.islice(indices, 64)]:
        yield from zip(batch, _encoded(tokenizer, [documents[i] for i in batch], chosen, most), strict=True)


def _encoded(tokenizer: Any, texts: Sequence[str], chosen: Protocol, most: int | None = None) -> list[Encoded]:
    """Tokenize each text, to at most so many tokens."""
    options: dict[str, Any] = {} if most is None else {"truncation": True, "max_length": most}
    as_text = chosen.special == "text"
    if getattr(tokenizer, _AS_TEXT, False) != as_text:  # its own setting is no part of a store's key
        options[_AS_TEXT] = as_text
    try:
        with panic_as_error():
            encoded = tokenizer(list(texts), verbose=False, return_special_tokens_mask=True, **options)
    except Exception as error:  # of many kinds: a pattern that ends nowhere, no token for what is unknown
        fault = f"the tokenizer fails on a text: {first_line(error)}"
        raise DataError(
            fault, type(tokenizer).__name__, "Check its tokenizer.json, or give another tokenizer."
        ) from None
    every = getattr(encoded, "encodings", None) or [None] * len(texts)  # which tokenizers in Python do not have
    parts = zip(texts, encoded["input_ids"], encoded["special_tokens_mask"], every, strict=True)
    return [_one_encoded(text, tokenizer, most, *part) for text, *part in parts]


def _one_encoded(
    text: str, tokenizer: Any, most: int | None, tokens: Sequence[int], mask: Sequence[int], encoding: Any
) -> Encoded:
    ids = np.asarray(tokens, dtype=np.int64)
    # tokenizers in Python that find their last token in the text already give a mask for another one
    added = np.asarray(mask, dtype=bool)[: len(ids)]
    own = np.flatnonzero(~added)
    if len(own) > 4 * len(text.encode()) + 16:
        fault = f"the tokenizer makes {len(own):,} tokens of {len(text.encode()):,} bytes"
        raise DataError(fault, type(tokenizer).__name__, "Check its tokenizer.json, or give another tokenizer.")
    if encoding is None:
        return Encoded(ids, added)
    sizes, ends = np.zeros((2, len(ids)), np.int64)
    if len(own):
        offsets = np.asarray(encoding.offsets, dtype=np.int64)[own]
        sizes[own] = _sizes(text, ids[own], offsets, tokenizer, most is None or len(ids) < most)
        ends[own] = np.maximum.accumulate(offsets[:, 1])
    return Encoded(ids, added, sizes, ends)


def _enough(
    beginning: Callable[[int], str], tokenizer: Any, chosen: Protocol, most: int | None, apart: Tokens
) -> Encoded:
    """Tokenize a text; if it is far longer than the budget, only enough of its beginning.

    beginning: gives its first so many characters. They are enough where beginnings that are a word shorter, and twice
    as long, begin with the same tokens. A text with no words to cut between is read whole. apart: tokens that are not
    scored.
    """
    budget = chosen.tokens or 0
    size = 16 * min(budget, most or budget) + 2**13
    while len(text := beginning(2 * size + 1)) > 2 * size:
        near, far = _word_ends(text, size), _word_ends(text, 2 * size)
        size *= 2
        if len(near) < 2 or not far:
            continue
        (encoded,) = _encoded(tokenizer, [text[: near[-1]]], chosen, most)
        ids, added, *_ = encoded
        full, plain = most is not None and len(ids) == most, ~(added | np.isin(ids, apart))
        if not full and len(_scorable(~plain[:-_MARGIN])) < budget:
            continue
        others = _encoded(tokenizer, [text[: near[-2]], text[: far[-1]]], chosen, most)
        if full and all(np.array_equal(ids, other.ids) for other in others):
            return encoded
        sure = max(0, min(_common(ids, other.ids) for other in others) - _MARGIN)
        if len(_scorable(~plain[:sure])) >= budget:
            return encoded.up_to(sure)
    return _encoded(tokenizer, [text], chosen, most)[0]


def _word_ends(text: str, size: int) -> list[int]:
    """Return where words end in the last part of the first `size` characters of a text."""
    return [found.end() for found in _WORD_END.finditer(text, max(0, size - 2**12), size)]


def _common(first: Tokens, other: Tokens) -> int:
    """Count the tokens with which both begin."""
    least = min(len(first), len(other))
    differ = np.flatnonzero(first[:least] != other[:least])
    return int(differ[0]) if len(differ) else least


def _windows(
    document: int, ids: Tokens, scorable: Tokens, chosen: Protocol, front: Sequence[int], begin: int
) -> Iterator[Row]:
    """Cut the text of a document, from the token `begin` on, into rows with `front` before each.

    Each row takes up `context` tokens of the one before it, and goes on until it has `length` tokens.
    """
    if not len(scorable):
        return
    ids = ids[: scorable[-1] + 1]  # what follows the last scored token is not needed
    start = done = begin
    while done < len(ids):
        stop = min(start + chosen.length - len(front), len(ids))
        mine = scorable[slice(*np.searchsorted(scorable, (done, stop)))]
        if len(mine):
            text, before = ids[start : mine[-1] + 1], len(front)
            yield Row(document, start - before, np.concatenate([front, text]).astype(np.int64), mine - start + before)
        start, done = stop - (chosen.context or 0), stop


def _listed(kind: Any) -> str:
    return ", ".join(get_args(kind))
