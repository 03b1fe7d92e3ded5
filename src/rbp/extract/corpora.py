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
import logging
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, overload

from rbp import registry
from rbp.errors import DataError, ParameterError
from rbp.extract.fingerprint import digest_bytes
from rbp.io import exists, home_expanded, parse_json
from rbp.names import nearest

log = logging.getLogger(__name__)

JOINER = "\n"  # between the fields of a document, as the authors join them
STDIN = "-"
TEXTS, TABLES, PACKED = (".txt", ".md"), (".jsonl", ".json", ".csv", ".parquet"), (".gz", ".zst")


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


@dataclass(frozen=True)
class Corpus:
    """Documents in a fixed order. fingerprint: all that determines them, for the digest of a rank store."""

    name: str
    documents: Sequence[str]
    fingerprint: dict[str, Any] = field(default_factory=dict)


class _Rows(Sequence[str]):
    """The documents of a `datasets.Dataset`, read when they are needed."""

    def __init__(self, dataset: Any, fields: tuple[str, ...]) -> None:
        self.dataset, self.fields = dataset, fields

    def __len__(self) -> int:
        return len(self.dataset)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = self.dataset[int(index)]
        return JOINER.join(row[name] for name in self.fields)


def open_corpus(name: str, fields: Sequence[str] = ()) -> Corpus:
    """Open the corpus `name`: one of `CORPORA`, one of another package, the path of a file, or "-".

    A file of TEXTS is one document; each row of one of TABLES is one, the text of its `fields` (default: text) joined
    by a newline. Either may be packed (PACKED). "-" is standard input: one document, or JSON lines if there are
    `fields`. Raises ParameterError for an unknown name or suffix; DataError for a file that is missing, malformed,
    empty, not UTF-8 or lacks a field, and for a hub corpus that is neither here nor within reach.
    """
    check_corpus(name, fields)
    if name in CORPORA:
        return _published(name, CORPORA[name])
    path = home_expanded(name)
    if _is_of_package(name):
        package, _, rest = name.partition("/")
        opened: Corpus = registry.entries("corpora")[package].load()(rest)
        return opened
    if name == STDIN:
        stem, suffix, packed = "stdin", TABLES[0] if fields else TEXTS[0], ""
    else:
        stem, suffix, packed = split_suffix(path.name)
    wanted = tuple(fields) or ("text",)
    try:
        data = _standard_input() if name == STDIN else path.read_bytes()
        checksum = digest_bytes(data)
        documents = _documents(_unpacked(data, packed), suffix, wanted, "standard input" if name == STDIN else name)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        what = f"cannot read the file: {getattr(error, 'strerror', None) or error}"
        raise DataError(what, name, "Check the file.") from None
    if not any(document.strip() for document in documents):
        raise DataError("the corpus is empty", name, "Give a file with text in it.")
    if suffix in TEXTS:  # the same text, with or without a mark before it
        checksum = digest_bytes(documents[0].encode())
    return Corpus(stem, documents, {"sha256": checksum, "fields": None if suffix in TEXTS else list(wanted)})


def check_corpus(name: str, fields: Sequence[str] = ()) -> None:
    """Check by its name alone whether `open_corpus` knows a corpus, and raise what that raises: nothing is read."""
    if fields and (name in CORPORA or _is_of_package(name)):
        raise ParameterError("a corpus by name has its own fields", f"{name}, --field", "Leave --field out.")
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
        raise ParameterError("a text file has no fields", f"{name}, --field", "Leave --field out.")


def _is_of_package(name: str) -> bool:
    return is_named(name) and name not in CORPORA and not exists(home_expanded(name))


def split_suffix(name: str) -> tuple[str, str, str]:
    """Split a file's name into stem, suffix (TEXTS or TABLES) and packing (PACKED); another file's is left whole."""
    low = name.lower()
    packed = next((each for each in PACKED if low.endswith(each)), "")
    suffix = next((each for each in (*TEXTS, *TABLES) if low.removesuffix(packed).endswith(each)), "")
    return (name[: -len(suffix + packed)], suffix, packed) if suffix else (name, "", "")


@cache
def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


def _unpacked(data: bytes, packed: str) -> bytes:
    """Raises OSError, EOFError, zlib.error or ValueError for what is no such file."""
    if packed == ".gz":
        return gzip.decompress(data)
    if packed == ".zst":
        import zstandard

        parts, rest = [], data
        try:
            while rest:
                frame = zstandard.ZstdDecompressor().decompressobj()
                parts.append(frame.decompress(rest))
                if not frame.eof:
                    raise EOFError("Compressed file ended before the end of its last frame")
                rest = frame.unused_data
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from None
        return b"".join(parts)
    return data


def _documents(data: bytes, suffix: str, fields: tuple[str, ...], where: str) -> list[str]:
    if suffix in TEXTS:
        return [_decoded(data, where)]
    if suffix == ".parquet":
        return _parquet(data, fields, where)
    rows = {".jsonl": _json_lines, ".json": _json, ".csv": _csv}[suffix](data, where)
    return [_complete(row, place) if isinstance(row, str) else _joined(row, fields, place) for place, row in rows]


def is_named(corpus: str) -> bool:
    """Return whether a corpus is one of `CORPORA`, or one of another package."""
    package, slash, _ = corpus.partition("/")
    return corpus in CORPORA or bool(slash and package in registry.entries("corpora"))


def given_corpus(texts: Iterable[Any], name: str, field: str = "text") -> Corpus:
    """Make a corpus of a program's texts: strings, or rows (of a `datasets.Dataset`) whose text is in `field`.

    Raises ParameterError for what are no texts, DataError where there is none, and for a row without its text.
    """
    table = getattr(texts, "ndim", 1) > 1  # which gives the names of its columns, as pandas does
    if table or isinstance(texts, str | bytes | Mapping) or not isinstance(texts, Iterable):
        what = f"{type(texts).__name__} holds no texts"
        raise ParameterError(what, "texts", "Give a list of strings, a table's column, or one split of a data set.")
    documents, digest = [], hashlib.sha256()
    for number, text in enumerate(texts, 1):
        if isinstance(text, Mapping):
            text = _joined(dict(text), (field,), f"texts, row {number}", "field=")
        if not isinstance(text, str):
            what = f"text {number} is no string: {type(text).__name__}"
            raise ParameterError(what, "texts", "Give strings, or rows with their text in a field.")
        documents.append(_complete(text, f"texts, text {number}"))
        digest.update(f"{len(text)} {text}".encode())
    if not any(document.strip() for document in documents):
        raise DataError("there is no text", "texts", "Give at least one document that is not empty.")
    return Corpus(name, documents, {"texts": digest.hexdigest()})


def _decoded(data: bytes, where: str) -> str:
    """Decode a text, without the mark that some editors put before it."""
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError("the text is not UTF-8", f"{where}, line {line}", "Save it as UTF-8.") from None


def _json_lines(data: bytes, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each row, with where it is."""
    for number, line in enumerate(io.BytesIO(data), 1):
        where = f"{name}, line {number}"
        text = _decoded(line, name if number == 1 else where).strip()
        if not text:
            continue
        try:
            row = parse_json(text)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise DataError("the line is no JSON object", where, 'Each line is one: {"text": "…"}.')
        yield where, row


def _json(data: bytes, name: str) -> Iterator[tuple[str, dict[str, Any] | str]]:
    """Yield the rows, or texts, of a JSON list; an object by itself; or rows of JSON lines, which some call JSON."""
    try:
        rows = parse_json(_decoded(data, name))
    except ValueError as error:
        if getattr(error, "msg", "") == "Extra data":
            yield from _json_lines(data, name)
            return
        line = f", line {error.lineno}" if hasattr(error, "lineno") else ""
        raise DataError("the file is no JSON", f"{name}{line}", "Mend it there.") from None
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], 1):
        if not isinstance(row, dict | str):
            what = f"item {number} is neither an object nor a text"
            raise DataError(what, name, 'Give a list of them: [{"text": "…"}, …].')
        yield f"{name}, item {number}", row


def _csv(data: bytes, name: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows of a table whose cells are separated by commas, each with the line where it begins."""
    limit = csv.field_size_limit(sys.maxsize)  # of 131 072 characters, which a document may pass
    try:
        begin = 1
        reader = csv.reader(io.StringIO(_decoded(data, name), newline=""), strict=True)
        header, begin = next(reader, []), reader.line_num + 1
        for cells in reader:
            where, begin = f"{name}, line {begin}", reader.line_num + 1
            if not cells:
                continue
            if len(cells) != len(header):
                what = f"{len(cells)} cells where the header has {len(header)}"
                raise DataError(what, where, "Separate the cells with single commas, and quote texts.")
            yield where, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise DataError(f"the file is not CSV: {error}", f"{name}, line {begin}", "Mend the quotes there.") from None
    finally:
        csv.field_size_limit(limit)


def _complete(text: str, where: str) -> str:
    """Return a text. Raises DataError for half of a character, such as JSON can spell, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        what = f"{half} is half a character: its other half is missing"
        raise DataError(what, where, "Write both halves, or leave it out.") from None
    return text


def _joined(row: dict[str, Any], fields: tuple[str, ...], where: str, option: str = "--field") -> str:
    for name in fields:
        if name not in row:
            raise DataError(f"there is no field {name}", where, f"Give {option}; there is: {', '.join(row)}.")
        if not isinstance(row[name], str):
            raise DataError(f"field {name} is no text", where, "Every document needs its text.")
    return _complete(JOINER.join(row[name] for name in fields), where)


def _parquet(data: bytes, fields: tuple[str, ...], where: str) -> list[str]:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(arrow.BufferReader(data))
        for name in fields:
            if name not in file.schema_arrow.names:
                remedy = f"Give --field; there is: {', '.join(file.schema_arrow.names)}."
                raise DataError(f"there is no field {name}", where, remedy)
        rows = file.read(columns=list(fields)).to_pylist()
    except arrow.ArrowException as error:
        what = f"cannot read the file as Parquet: {str(error).splitlines()[0].rstrip('.')}"
        raise DataError(what, where, "Write it again.") from None
    except UnicodeDecodeError:
        raise DataError("the text is not UTF-8", where, "Save it as UTF-8.") from None
    return [_joined(row, fields, f"{where}, row {number}") for number, row in enumerate(rows, 1)]


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
        what = f"cannot read the corpus: {str(error).splitlines()[0].rstrip('.') if str(error) else error!r}"
        raise DataError(what, f"{name}, {hub.repository}", "Delete its folder in the cache, and try again.") from None
    if hub.documents is not None and len(dataset) != hub.documents:
        what = f"the copy on this machine holds {len(dataset):,} documents of {hub.documents:,}"
        raise DataError(what, f"{name}, {hub.repository}", remedy)
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
        what = "the corpus is not on this machine, and the hub cannot be reached"
        remedy = "Connect this machine once, or give a file of your own (.jsonl, .parquet, .txt, …)."
        raise DataError(what, f"{name}, {hub.repository}", remedy) from None
