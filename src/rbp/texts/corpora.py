"""The texts: the paper's six corpora by name, or a file of your own.

A hub corpus is downloaded file by file at a fixed commit and read through `datasets`, so that only the split
that is asked for comes down (`load_dataset` would fetch all of C4 for its validation split), and a machine
without a connection reads what is there.
"""

import codecs
import csv
import gzip
import hashlib
import io
import itertools
import logging
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast, overload

from rbp import registry
from rbp.errors import DataError, ParameterError
from rbp.fingerprint import digest_bytes
from rbp.io import exists, home_expanded, parse_json
from rbp.names import nearest

log = logging.getLogger(__name__)

JOINER = "\n"  # between the fields of a document, as the authors join them
STDIN = "-"
_PAIR = ("prompt", "completion")  # the fields of texts of which the second alone is scored
_OPTION = "--field (of rbp extract; in a study's file: fields)"
_PIECE = 2**20  # bytes that are unpacked at once
TEXTS, TABLES, PACKED = (".txt", ".md"), (".jsonl", ".json", ".csv", ".tsv", ".parquet"), (".gz", ".zst")


@dataclass(frozen=True)
class Hub:
    """The place of a published corpus: repository, the split's files in order, the fields that make a document."""

    repository: str
    files: tuple[str, ...]
    fields: tuple[str, ...] = ("text",)
    documents: int | None = None  # of the whole split, where it is known: an incomplete copy is found out
    subset: str | None = None  # of the Pile


CORPORA = {
    "wikipedia": Hub("wikimedia/wikipedia", ("20231101.en/train-*.parquet",), documents=6_407_814),
    "humaneval": Hub(
        "openai/openai_humaneval",
        ("openai_humaneval/test-*.parquet",),
        ("prompt", "canonical_solution"),
        documents=164,
    ),
    "hotpotqa": Hub("hotpotqa/hotpot_qa", ("distractor/validation-*.parquet",), ("question", "answer"), documents=7405),
    "auslegal": Hub("isaacus/open-australian-legal-corpus", ("corpus.jsonl",)),
    "c4": Hub("allenai/c4", ("en/c4-validation.*.json.gz",), documents=364_608),
    "pile-github": Hub("monology/pile-uncopyrighted", ("val.jsonl.zst", "test.jsonl.zst"), subset="Github"),
}


class _Documents(Sequence[str]):
    """Documents that are read one by one, as they are asked for."""

    def beginning(self, index: int, characters: int) -> str:
        """Return the first so many characters of a document, all if it has no more."""
        raise NotImplementedError

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.beginning(int(index), sys.maxsize)


class Unread(_Documents):
    """The documents of a file of which no more is read than is asked for.

    parts: the documents in their order; if the file is one text, its parts.
    """

    def __init__(self, parts: Iterator[str], one_text: bool) -> None:
        self.one_text, self._parts, self._read = one_text, parts, list[str]()

    def _more(self) -> bool:
        part = next(self._parts, None)
        if part is not None:
            self._read.append(part)
        return part is not None

    def has(self, index: int) -> bool:
        """Return whether there is such a document, and read as far."""
        while len(self._read) <= (0 if self.one_text else index) and self._more():
            pass
        return index < min(len(self._read), 1 if self.one_text else index + 1)

    def is_blank(self) -> bool:
        """Return whether there is no text in any document, and read as far as the first."""
        while not any(map(str.strip, self._read)):
            if not self._more():
                return True
        return False

    def beginning(self, index: int, characters: int) -> str:
        """Return the first so many characters of a document, all if it has no more."""
        if not self.has(index):
            raise IndexError(index)
        if not self.one_text:
            return self._read[index][:characters]
        while sum(map(len, self._read)) < characters and self._more():
            pass
        self._read = ["".join(self._read)]
        return self._read[0][:characters]

    def __len__(self) -> int:
        while not self.one_text and self._more():
            pass
        return min(len(self._read), 1) if self.one_text else len(self._read)


@dataclass(frozen=True)
class Corpus:
    """Documents in a fixed order.

    fingerprint: all that determines them, for the digest of a rank store; starts: the character of each document that
    was read so far at which its scored text begins, after its prompt ([]: all of each is scored).
    """

    name: str
    documents: Sequence[str]
    fingerprint: dict[str, Any] = field(default_factory=dict)
    starts: Sequence[int] = ()

    def beginning(self, index: int, characters: int) -> str:
        """Return the first so many characters of a document, all if it has no more."""
        if isinstance(self.documents, _Documents):
            return self.documents.beginning(index, characters)
        return self.documents[index][:characters]

    def prompt(self, index: int) -> str:
        """Return what the model reads of a document before the text that is scored."""
        beginning = self.beginning(index, 1)  # from here on its start is known
        return self.beginning(index, start) if beginning and self.starts and (start := self.starts[index]) else ""


class _Fields:
    """The fields of rows that make a document: those of the text, joined, after the one of its prompt, if any.

    Where none are given the first row decides: text, or else completion after prompt. starts: where each document's
    text begins, by character.
    """

    def __init__(self, text: Sequence[str] = (), prompt: str | None = None, option: str = _OPTION) -> None:
        self.text, self.prompt, self.option, self.starts = tuple(text), prompt, option, list[int]()
        if prompt and not text:
            self.text = (_PAIR[1],)

    def settled(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return all the fields' names, chosen among `names` where none were given."""
        if not self.text:
            pair = "text" not in (available := {*names}) and {*_PAIR} <= available
            self.prompt, self.text = (_PAIR[0], (_PAIR[1],)) if pair else (None, ("text",))
        return (*([self.prompt] if self.prompt else []), *self.text)

    def about(self) -> dict[str, str]:
        """Return the prompt's field, for a corpus's fingerprint; {} if there is none."""
        return {"prompt": self.prompt} if self.prompt else {}

    def document(self, row: dict[str, Any] | str, where: str) -> str:
        """Return the document of a row. Raises DataError where a field is missing, there twice, or no text."""
        if isinstance(row, str):
            self.starts.append(0)
            return _complete(row, where)
        for name in self.settled(row):
            if name not in row:
                raise _missing(name, row, where, self.option)
            if name in getattr(row, "repeated", ()):
                raise _twice(name, where)
            if not isinstance(row[name], str):
                remedy = "Write a chat as text first, by the tokenizer's chat template."
                remedy = remedy if isinstance(row[name], list) else "Every document needs its text."
                raise DataError(f"field {name} is not text", where, remedy)
        before = _complete(row[self.prompt], where) if self.prompt else ""
        self.starts.append(len(before))
        return before + _complete(JOINER.join(row[name] for name in self.text), where)


class _Rows(_Documents):
    """The documents of a `datasets.Dataset`."""

    def __init__(self, dataset: Any, fields: tuple[str, ...]) -> None:
        self.dataset, self.fields = dataset, fields

    def __len__(self) -> int:
        return len(self.dataset)

    def beginning(self, index: int, characters: int) -> str:
        """Return the first so many characters of a document, all if it has no more."""
        row = self.dataset[index]
        return JOINER.join(row[name] for name in self.fields)[:characters]


def open_corpus(name: str, fields: Sequence[str] = (), partly: bool = False, prompt: str | None = None) -> Corpus:
    """Open the corpus `name`: one of `CORPORA`, one of another package, the path of a file, or "-".

    A file of TEXTS is one document; each row of one of TABLES is one, the text of its `fields` (default: text) joined
    by a newline. The text of the field `prompt`, if any, comes right before it, to be read and not scored; rows without
    a text, but with a prompt and a completion, are read so by themselves. Either may be packed (PACKED). "-" is
    standard input: one document, or JSON lines if there are `fields`, or its first line is a JSON object. partly: of a
    file that is packed or Parquet, no more is read than is asked for (`Unread`), and what is wrong with the rest is not
    seen. Raises ParameterError for an unknown name or suffix; DataError for a file that is missing, malformed, empty,
    not UTF-8, lacks a field or has it twice, and for a hub corpus that is neither here nor within reach.
    """
    check_corpus(name, fields or ([prompt] if prompt else []))
    if name in CORPORA:
        return _published(name, CORPORA[name])
    path = home_expanded(name)
    if _is_of_package(name):
        package, _, rest = name.partition("/")
        opened: Corpus = registry.entries("corpora")[package].load()(rest)
        return opened
    if name == STDIN:
        data = _standard_input()
        table = fields or prompt or _is_json_line(data)
        stem, suffix, packed, where = "stdin", TABLES[0] if table else TEXTS[0], "", "standard input"
        if table and not fields and not prompt:
            log.warning("standard input is read as JSON lines, as its first line is a JSON object")
    else:
        stem, suffix, packed = split_suffix(path.name)
        with _readable(name):
            data, where = path.read_bytes(), name
    wanted, text = _Fields(fields, prompt), suffix in TEXTS
    parts = _parts(data, packed, suffix, wanted, where)
    if partly and (packed or suffix == ".parquet"):
        documents: Sequence[str] = Unread(parts, text)
    else:
        documents = ["".join(parts)] if text else [*parts]
    if documents.is_blank() if isinstance(documents, Unread) else not any(map(str.strip, documents)):
        raise DataError("the corpus is empty", name, "Give a file with text in it.")
    if text and not packed:  # the same text, with or without a mark before it
        data = documents[0].encode()
        if name != STDIN and _is_json_line(data):
            log.warning("%s is read as one text, though its lines look like JSON: call it .jsonl if they are", name)
    fingerprint = {"sha256": digest_bytes(data), "fields": None if text else [*wanted.text] or ["text"]}
    return Corpus(stem, documents, fingerprint | wanted.about(), wanted.starts)


def check_corpus(name: str, fields: Sequence[str] = ()) -> None:
    """Check by its name alone whether `open_corpus` knows a corpus, and raise what that raises: nothing is read."""
    if fields and (name in CORPORA or _is_of_package(name)):
        raise ParameterError("a corpus by name has its own fields", f"{name}, --field", "Leave out --field.")
    if name in (*CORPORA, STDIN) or _is_of_package(name):
        return
    path = home_expanded(name)
    _, suffix, _ = split_suffix(path.name)
    if not suffix:
        others = "".join(f"{package}/humaneval …, or " for package in registry.entries("corpora"))
        kinds = f"{', '.join((*TEXTS, *TABLES))}, as they are or with {' or '.join(PACKED)}"
        remedy = f"{nearest(path.name, CORPORA)} Or give {others}a file: {kinds}; or - for standard input."
        called = name if len(name) < 80 else f"{name[:76]} …"  # where it is a text
        raise ParameterError(f"unknown corpus {called!r}", "--corpus", remedy)
    if not (exists(path) and path.is_file()):
        raise DataError("there is no such file", name, f"Check the path; by name there is: {', '.join(CORPORA)}.")
    if suffix in TEXTS and fields:
        raise ParameterError("a text file has no fields", f"{name}, --field", "Leave out --field.")


def _is_of_package(name: str) -> bool:
    return is_named(name) and name not in CORPORA and not exists(home_expanded(name))


def split_suffix(name: str) -> tuple[str, str, str]:
    """Split a file's name into stem, suffix (TEXTS or TABLES) and packing (PACKED); another file's is left whole."""
    low = name.lower()
    packed = next((ending for ending in PACKED if low.endswith(ending)), "")
    suffix = next((ending for ending in (*TEXTS, *TABLES) if low.removesuffix(packed).endswith(ending)), "")
    return (name[: -len(suffix + packed)], suffix, packed) if suffix else (name, "", "")


@cache
def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


def _is_json_line(data: bytes) -> bool:
    """Return whether a text begins with a line that is a JSON object."""
    try:
        return isinstance(parse_json(data.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")[0]), dict)
    except ValueError:
        return False


@contextmanager
def _readable(name: str) -> Iterator[None]:
    """Raise DataError for what a reader raises for a file that is not as it should be."""
    try:
        yield
    except (OSError, EOFError, zlib.error, ValueError) as error:
        fault = f"cannot read the file: {getattr(error, 'strerror', None) or error}"
        raise DataError(fault, name, "Check the file.") from None


def _unpacked(data: bytes, packed: str) -> BinaryIO:
    """Return a stream that unpacks as it is read, since a few bytes may hold very many."""
    if packed == ".gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=io.BytesIO(data)))
    if packed == ".zst":
        import pyarrow as arrow

        return io.BufferedReader(arrow.input_stream(arrow.BufferReader(data), compression="zstd"))
    return io.BytesIO(data)


def _parts(data: bytes, packed: str, suffix: str, fields: _Fields, where: str) -> Iterator[str]:
    """Yield the documents of a table, or the parts of a text."""
    with _readable(where):
        stream = _unpacked(data, packed)
        if suffix in TEXTS:
            yield from _decoded_parts(iter(lambda: stream.read(_PIECE), b""), where)
        elif suffix == ".parquet":
            yield from _parquet(stream.read(), fields, where)
        else:
            rows = {".jsonl": _json_lines, ".json": _json}.get(suffix, _csv)(stream, where, fields)
            for place, row in rows:
                yield fields.document(row, place)


def is_named(corpus: str) -> bool:
    """Return whether a corpus is one of `CORPORA`, or one of another package."""
    package, slash, _ = corpus.partition("/")
    return corpus in CORPORA or bool(slash and package in registry.entries("corpora"))


def given_corpus(texts: Iterable[Any], name: str, field: str | None = None, prompt: str | None = None) -> Corpus:
    """Make a corpus of a program's texts: strings, or rows (of a `datasets.Dataset`) whose text is in `field`.

    prompt: the field that is read before it, and not scored. Rows without a text, but with a prompt and a completion,
    are read so where neither is given.
    Raises ParameterError for what are no texts, DataError where there is none, and for a row without its text.
    """
    table = getattr(texts, "ndim", 1) > 1  # which gives the names of its columns, as pandas does
    if table or isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        fault = f"{type(texts).__name__} is not a list of texts"
        raise ParameterError(fault, "texts", "Give a list of strings, a table's column, or one split of a data set.")
    documents, digest = list[str](), hashlib.sha256()
    fields = _Fields([field] if field else [], prompt, "field=")
    for number, text in enumerate(texts, 1):
        if not isinstance(text, Mapping | str):
            fault = f"text {number} is not a string: {type(text).__name__}"
            raise ParameterError(fault, "texts", "Give strings, or rows with their text in a field.")
        if isinstance(text, Mapping):
            document = fields.document(dict(text), f"texts, row {number}")
        else:
            document = fields.document(text, f"texts, text {number}")
        documents.append(document)
        after = f"after {start} " if (start := fields.starts[-1]) else ""
        digest.update(f"{after}{len(document)} {document}".encode())
    if not any(document.strip() for document in documents):
        raise DataError("there is no text", "texts", "Give at least one document that is not empty.")
    return Corpus(name, documents, {"texts": digest.hexdigest()}, fields.starts)


def _decoded_parts(pieces: Iterator[bytes], where: str) -> Iterator[str]:
    """Decode a text in pieces, without the mark that some editors put before it."""
    decoder, line = codecs.getincrementaldecoder("utf-8-sig")(), 1
    for piece in itertools.chain(pieces, [None]):
        try:
            yield decoder.decode(piece or b"", final=piece is None)
        except UnicodeDecodeError as error:
            line += error.object.count(b"\n", 0, error.start)
            raise DataError("the text is not UTF-8", f"{where}, line {line}", "Save it as UTF-8.") from None
        line += (piece or b"").count(b"\n")


class _Object(dict[str, Any]):
    """A JSON object. repeated: the names that are in it more than once, of which the last counts."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated = _repeated([name for name, _ in pairs]) if len(self) < len(pairs) else ()


def _repeated(names: Sequence[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _json_lines(stream: BinaryIO, name: str, _: _Fields) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row, with where it is."""
    for number, line in enumerate(stream, 1):
        where = f"{name}, line {number}"
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            raise DataError("the text is not UTF-8", where, "Save it as UTF-8.") from None
        if not text:
            continue
        try:
            row = parse_json(text, _Object)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise DataError("the line is not a JSON object", where, 'Each line is one: {"text": "…"}.')
        yield where, row


def _json(stream: BinaryIO, name: str, fields: _Fields) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Yield the rows, or texts, of a JSON list; an object by itself; or rows of JSON lines, which some call JSON."""
    data = stream.read()
    try:
        rows = parse_json("".join(_decoded_parts(iter([data]), name)), _Object)
    except ValueError as error:
        if getattr(error, "msg", "") == "Extra data":
            yield from _json_lines(io.BytesIO(data), name, fields)
            return
        line = f", line {error.lineno}" if hasattr(error, "lineno") else ""
        raise DataError("the file is not JSON", f"{name}{line}", "Correct it there.") from None
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], 1):
        if not isinstance(row, dict | str):
            fault = f"item {number} is neither an object nor a text"
            raise DataError(fault, name, 'Give a list of them: [{"text": "…"}, …].')
        yield f"{name}, item {number}", row


def _csv(stream: BinaryIO, name: str, fields: _Fields) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a table, each with the line where it begins.

    Its cells are separated by commas (of a .tsv file by tabs), or else as the header has all `fields` only then.
    """
    from rbp.tables import SEPARATORS

    limit = csv.field_size_limit(sys.maxsize)  # of 131 072 characters, which a document may pass
    begin = 1
    try:
        lines = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        first = lines.readline()
        usual = "\t" if split_suffix(name)[1] == ".tsv" else ","
        headers = {mark: next(csv.reader([first], delimiter=mark), []) for mark in (usual, *SEPARATORS)}
        mark = next((mark for mark, names in headers.items() if {*copy(fields).settled(names)} <= {*names}), usual)
        if mark != usual:
            log.warning("%s: the cells are taken to be separated by %s.", name, SEPARATORS[mark])
        reader = csv.reader(itertools.chain([first], lines), delimiter=mark, strict=True)
        header, begin = next(reader, []), reader.line_num + 1
        if twice := {*fields.settled(header)} & {*_repeated(header)}:
            raise _twice(min(twice), f"{name}, line 1")
        for cells in reader:
            where, begin = f"{name}, line {begin}", reader.line_num + 1
            if not cells:
                continue
            if len(cells) != len(header):
                fault = f"{len(cells)} cells where the header has {len(header)}"
                raise DataError(fault, where, f"Separate the cells with single {SEPARATORS[mark]}, and quote texts.")
            yield where, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise DataError(f"the file is not CSV: {error}", f"{name}, line {begin}", "Correct the quotes there.") from None
    except UnicodeDecodeError:
        raise DataError("the text is not UTF-8", f"{name}, from line {begin} on", "Save it as UTF-8.") from None
    finally:
        csv.field_size_limit(limit)


def _twice(name: str, where: str) -> DataError:
    return DataError(
        f"the field {name} appears twice, so it is not clear which is meant", where, "Rename or remove one."
    )


def _missing(name: str, there: Iterable[str], where: str, option: str = _OPTION) -> DataError:
    some = [*itertools.islice(there, 11)]
    named = ", ".join(some[:10]) + (", …" if some[10:] else "")
    return DataError(f"there is no field {name}", where, f"Give {option}; there is: {named}.")


def _complete(text: str, where: str) -> str:
    """Return a text. Raises DataError for half of a character, such as JSON can spell, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        fault = f"{half} is half a character: its other half is missing"
        raise DataError(fault, where, "Write both halves, or leave it out.") from None
    return text


def _parquet(data: bytes, fields: _Fields, where: str) -> Iterator[str]:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    number = itertools.count(1)
    try:
        file = parquet.ParquetFile(arrow.BufferReader(data))
        names = file.schema_arrow.names
        for name in (columns := fields.settled(names)):
            if name not in names:
                raise _missing(name, names, where)
            if name in _repeated(names):
                raise _twice(name, where)
        for batch in file.iter_batches(batch_size=64, columns=[*columns]):
            yield from (fields.document(row, f"{where}, row {next(number)}") for row in batch.to_pylist())
    except arrow.ArrowException as error:
        fault = f"cannot read the file as Parquet: {str(error).splitlines()[0].rstrip('.')}"
        raise DataError(fault, where, "Write it again.") from None
    except UnicodeDecodeError:
        raise DataError("the text is not UTF-8", where, "Save it as UTF-8.") from None


def _published(name: str, hub: Hub) -> Corpus:
    folder = _snapshot(name, hub)
    files = [str(path) for pattern in hub.files for path in sorted(folder.glob(pattern))]
    remedy = "Connect this machine once, so that the files can be downloaded."
    if not files:
        raise DataError("the corpus is not on this machine", f"{name}, {hub.repository}", remedy)
    import datasets

    kind = "parquet" if files[0].endswith(".parquet") else "json"
    try:
        dataset = datasets.load_dataset(kind, data_files=files, split="train")
        if hub.subset is not None:
            dataset = dataset.filter(lambda meta: meta["pile_set_name"] == hub.subset, input_columns="meta")
    except Exception as error:  # of datasets, pyarrow, or a codec that is not installed
        fault = f"cannot read the corpus: {str(error).splitlines()[0].rstrip('.') if str(error) else error!r}"
        raise DataError(fault, f"{name}, {hub.repository}", "Delete its folder in the cache, and try again.") from None
    if hub.documents is not None and len(dataset) != hub.documents:
        fault = f"the copy on this machine holds {len(dataset):,} documents of {hub.documents:,}"
        raise DataError(fault, f"{name}, {hub.repository}", remedy)
    fingerprint = {
        "repository": hub.repository,
        "revision": folder.name,
        "files": list(hub.files),
        "fields": list(hub.fields),
        "subset": hub.subset,
    }
    return Corpus(name, _Rows(dataset, hub.fields), fingerprint)


def _snapshot(name: str, hub: Hub) -> Path:
    """Download the corpus's files at one commit; return their folder. The size is announced before."""
    from huggingface_hub import HfApi, snapshot_download

    revision = None
    try:
        info = HfApi().dataset_info(hub.repository, files_metadata=True)
        revision = info.sha
        sizes = [
            s.size or 0 for s in info.siblings or [] if any(fnmatch(s.rfilename, pattern) for pattern in hub.files)
        ]
        log.info("%s: %.1f GB in %d files, downloaded where missing", name, sum(sizes) / 1e9, len(sizes))
    except Exception:  # of the hub, or of whatever HTTP client it has where there is no connection
        log.info("%s: the hub cannot be reached, so the copy on this machine is taken", name)
    try:
        return Path(
            snapshot_download(hub.repository, repo_type="dataset", revision=revision, allow_patterns=list(hub.files))
        )
    except Exception as error:  # as above
        if getattr(error, "errno", None) == 28:
            raise DataError("the disk is full", name, "Free some space, or set HF_HOME to another disk.") from None
        fault = "the corpus is not on this machine, and the hub cannot be reached"
        remedy = "Connect this machine once, or give a file of your own (.jsonl, .parquet, .txt, …)."
        raise DataError(fault, f"{name}, {hub.repository}", remedy) from None
