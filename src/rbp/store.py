"""A rank store: the folder of one measurement, named by a digest of all that determines its ranks.

Its manifest says what was measured and is sealed by a checksum; every part is checked before a rank is believed.
"""

import fcntl
import hashlib
import logging
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as arrow
import pyarrow.parquet as parquet

from rbp.errors import DataError, ParameterError
from rbp.io import canonical_json, lock, parse_json, write_file, write_json, write_remedy
from rbp.models.training import NAMES, Training

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 3  # docs/store.md; 1: without the dtype of the logits that are ranked; 2: without `top`
MANIFEST, CHECKS = "manifest.json", "checks"
_FILES = re.compile(r"manifest\.json|parts|checks|lock(-\d+-of-\d+)?|\..*\.tmp")  # all that a store may hold
PART = re.compile(r"(\d{5,})-([0-9a-f]{16})\.parquet")
REDO = "Run the command that made it again: it redoes what is damaged, and nothing else."


def measurement_digest(key: dict[str, Any]) -> str:
    """Name a measurement by a digest of all that determines its ranks.

    Its ordinal is apart: it tells models in memory from one another that have one digest (`rbp.extract.extraction`).
    """
    key = {name: value for name, value in key.items() if name != "ordinal"}
    return hashlib.sha256(canonical_json({"format": FORMAT, **key}).encode()).hexdigest()[:16]


def sealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest with the checksum of all its other entries."""
    rest = {name: value for name, value in manifest.items() if name != "checksum"}
    return {**rest, "checksum": hashlib.sha256(canonical_json(rest).encode()).hexdigest()}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read the manifest in a store's folder, if it is as it was written.

    Raises DataError if it is missing, damaged, without its checksum, or of another version.
    """
    path = folder / MANIFEST
    try:
        manifest = parse_json(path.read_bytes())
    except FileNotFoundError:
        remedy = "rbp ranks list shows the stores of a folder."
        raise DataError("the folder is not a rank store: no manifest.json", str(folder), remedy) from None
    except (OSError, ValueError):
        raise DataError("the manifest cannot be read", str(path), REDO) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        version = f"format {manifest.get('format')}" if isinstance(manifest, dict) else "no format"
        fault = f"the store was written by another version of rbp: {version}, and this one reads format {FORMAT}"
        raise DataError(fault, str(folder), "Extract it again, or read it with the version that wrote it.")
    try:
        intact = _is_whole(manifest)
    except (ValueError, KeyError, TypeError, AttributeError):  # entries that no manifest of ours holds, or lacks
        intact = False
    if not intact:
        raise DataError("the manifest was altered, or is damaged", str(path), REDO)
    return manifest


def _is_whole(manifest: dict[str, Any]) -> bool:
    """Return whether nothing was changed since a store wrote its manifest; the seal vouches for types."""
    if sealed(manifest) != manifest or measurement_digest(manifest["key"]) != manifest["digest"]:
        return False
    parts = manifest.get("parts", {})
    rows = sum(part["rows"] for part in parts.values())
    complete = len(parts) == manifest["packs"] and rows == manifest["tokens"] and all(map(PART.fullmatch, parts))
    return complete or not manifest["complete"]


def text_code(corpus: Any) -> str:
    """Return a short name for a text, by all that determines it (`Corpus.fingerprint`)."""
    return hashlib.sha256(canonical_json(corpus).encode()).hexdigest()[:6]


log = logging.getLogger(__name__)

SCHEMA = arrow.schema(
    [(name, arrow.int32()) for name in ("document", "position", "token", "greater", "equal")]
    + [("nll", arrow.float32()), ("top", arrow.int32())]
)
_SMALL: dict[str, Any] = {  # half of what the defaults give, and quicker to read
    "compression": "zstd",
    "compression_level": 15,
    "use_dictionary": ["token", "equal"],
    "column_encoding": {
        **dict.fromkeys(("document", "position"), "DELTA_BINARY_PACKED"),
        **dict.fromkeys(("greater", "nll"), "BYTE_STREAM_SPLIT"),
    },
    "store_schema": False,
}


@dataclass(frozen=True)
class SampleCheck:
    """What ranking some rows again found.

    rows, tokens: how many were; differ: tokens whose counts differ, but by no more than rounding; largest: by how much
    `greater` differs there, at most; slack: how far rounding can move their logits, at most; nll: by how much a
    cross-entropy differs (nats), at most.
    """

    rows: int = 0
    tokens: int = 0
    differ: int = 0
    largest: int = 0
    slack: float = 0.0
    nll: float = 0.0

    def __add__(self, other: "SampleCheck") -> "SampleCheck":
        counts = self.rows + other.rows, self.tokens + other.tokens, self.differ + other.differ
        most = (max(getattr(self, name), getattr(other, name)) for name in ("largest", "slack", "nll"))
        return SampleCheck(*counts, *most)

    @property
    def unseen(self) -> float:
        """Return the share of all rows that may be wrong with none of them in the sample, with a probability of 5%."""
        return 1 - 0.05 ** (1 / self.rows) if self.rows else 1.0

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, for a manifest."""
        return {name: float(f"{value:.3g}") if type(value) is float else value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Store:
    """A rank store's folder."""

    folder: Path

    @property
    def manifest(self) -> dict[str, Any]:
        """Read digest, key, about, packs, tokens, complete, checksum, and, once complete, parts {name: {sha256, rows}}.

        Raises DataError if it is missing, damaged or of another version.
        """
        return read_manifest(self.folder)

    def begin(self, key: dict[str, Any], notes: dict[str, Any], packs: int, tokens: int) -> None:
        """Write the manifest of a measurement that begins or goes on; `about` is replaced."""
        manifest = {"format": FORMAT, "digest": measurement_digest(key), "key": key, "about": notes}
        self._put({**manifest, "packs": packs, "tokens": tokens, "complete": False})

    def note(self, share: str, checks: Mapping[str, SampleCheck]) -> None:
        """Write what ranking rows again found (`rbp.extract.verify`), by the names of the rows' parts.

        share: which part of the work this was; parts of which no row was drawn have their entry too.
        """
        with full_disk(self.folder):
            entries = {name: check.as_dict() for name, check in checks.items()}
            write_json(self.folder / CHECKS / f"{share}.json", entries)

    def noted(self) -> dict[str, SampleCheck]:
        """Read what `note` wrote, of the parts that are whole. A part that was written anew has to be checked again."""
        whole_names = {path.name for path in self.parts()[0].values()}
        checks: dict[str, SampleCheck] = {}
        for path in sorted((self.folder / CHECKS).glob("*.json")):
            try:
                entries = parse_json(path.read_bytes())
                checks |= {name: SampleCheck(**entry) for name, entry in entries.items() if name in whole_names}
            except (OSError, ValueError, TypeError, AttributeError):  # damaged: these rows are ranked again
                continue
        return checks

    def checked(self) -> SampleCheck | None:
        """Sum the checks of all parts; None while a pack is missing, or was not checked."""
        noted = self.noted()
        return sum(noted.values(), SampleCheck()) if len(noted) >= self.manifest["packs"] else None

    def finish(self, additions: dict[str, Any]) -> None:
        """Say that every pack is there and whole, and list the parts. Raises DataError if one is not."""
        manifest = self.manifest
        whole_parts, _ = self.parts()
        missing = [pack for pack in range(manifest["packs"]) if pack not in whole_parts]
        if missing:
            raise DataError(f"pack {missing[0]} is missing", str(self.folder), REDO)
        parts = {}
        for _, path in sorted(whole_parts.items()):
            data = path.read_bytes()
            rows = parquet.read_metadata(arrow.BufferReader(data)).num_rows
            parts[path.name] = {"sha256": hashlib.sha256(data).hexdigest(), "rows": rows}
        notes = manifest["about"]
        if manifest["complete"] and parts != manifest["parts"]:  # what was asked of other parts says nothing of these
            notes = {name: value for name, value in notes.items() if name != "check"}
        if (sampled := self.checked()) is not None:
            notes = {**notes, "check": sampled.as_dict()}
        self._put({**manifest, "about": {**notes, **additions}, "complete": True, "parts": parts})

    def relabel(self, notes: dict[str, Any]) -> None:
        """Write the manifest with another `about`."""
        self._put({**self.manifest, "about": notes})

    def number(self, ordinal: int) -> None:
        """Write the manifest with the ordinal of a model in memory, beside others of one digest."""
        manifest = self.manifest
        self._put({**manifest, "key": {**manifest["key"], "ordinal": ordinal}})

    def _put(self, manifest: dict[str, Any]) -> None:
        with full_disk(self.folder):
            write_json(self.folder / MANIFEST, sealed(manifest))

    def parts(self) -> tuple[dict[int, Path], list[Path]]:
        """Return the whole parts by pack, and the files that are not whole: damaged, or left over."""
        parts: dict[int, Path] = {}
        rest = []
        for path in sorted((self.folder / "parts").glob("*")):
            match = PART.fullmatch(path.name)
            if match and path.is_file() and int(match[1]) not in parts and _checksum(path.read_bytes()) == match[2]:
                parts[int(match[1])] = path
            elif not path.name.startswith("."):
                rest.append(path)
        return parts, rest

    def write(self, pack: int, columns: dict[str, Any]) -> None:
        """Write the part of `pack`, whole or not at all; `top` may be missing, where it is not known."""
        unknown = arrow.nulls(len(columns["token"]), arrow.int32())
        arrays = [_array(columns[name]) if name in columns else unknown for name in SCHEMA.names]
        table = arrow.table(arrays, SCHEMA.names).cast(SCHEMA)
        sink = arrow.BufferOutputStream()
        parquet.write_table(table, sink, **_SMALL)
        data = sink.getvalue().to_pybytes()
        with full_disk(self.folder):
            write_file(self.folder / "parts" / f"{pack:05d}-{_checksum(data)}.parquet", data)

    def write_whole(self, key: dict[str, Any], notes: dict[str, Any], columns: dict[str, Any]) -> None:
        """Write a measurement in one part, in place of all that was there."""
        with self.lock():
            self.clear()
            self.begin(key, notes, 1, len(columns["token"]))
            for old in (self.folder / "parts").glob("*"):
                old.unlink()
            self.write(0, columns)
            self.finish({})

    def clear(self) -> None:
        """Remove what a killed run left half-written. Only for the one run that has the whole store."""
        for folder in (self.folder, self.folder / "parts", self.folder / CHECKS):
            for path in folder.glob(".*.tmp"):
                path.unlink(missing_ok=True)

    @contextmanager
    def lock(self, shard: tuple[int, int] | None = None) -> Iterator[None]:
        """Keep other runs off: the whole store, or one shard (i of n, from 1) beside other shards.

        The system lets go of a lock when its process ends, however it ends. Raises DataError if another run
        holds it.
        """
        with full_disk(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            names = ["lock"] if shard is None else ["lock", f"lock-{shard[0]}-of-{shard[1]}"]
            streams = [(self.folder / name).open("a+") for name in names]  # over NFS, sharing needs reading
        try:
            for stream in streams:
                # shards share the store's lock, which a whole run wants for itself
                kind = fcntl.LOCK_SH if stream is streams[0] and shard is not None else fcntl.LOCK_EX
                held = lock(stream, kind | fcntl.LOCK_NB)
                if held is False:
                    fault = "another run is working on this store"
                    raise DataError(fault, str(self.folder), "Wait for it, or stop it; nothing is lost.")
                if held is None:
                    log.warning("%s: this file system has no locks, so another run is not noticed", self.folder)
            yield
        finally:
            for stream in streams:
                stream.close()


def find_place(out: Path, name: str, key: dict[str, Any]) -> Store:
    """Find the store of a measurement in the folder `out`: the existing one by its digest, or a new name."""
    matches = sorted(out.glob(f"*-{_code(key)}"))
    return Store(matches[0] if matches else out / store_name(name, key))


def must_be_stores(folders: Iterable[Path]) -> None:
    """Raise DataError for a folder that is no store, a link to one, or that holds other files."""
    for folder in folders:
        valid = is_store(folder) and not folder.is_symlink()
        other = sorted(path.name for path in folder.iterdir() if not _FILES.fullmatch(path.name)) if valid else []
        if other or not valid:
            fault = f"it holds {other[0]}, which is not part of a store" if other else "this is not a rank store"
            remedy = "rbp ranks list shows the stores of a folder."
            raise DataError(f"{fault}: nothing was removed", str(folder), remedy)


def remove(folders: Sequence[Path]) -> None:
    """Remove stores, and nothing else. Raises what `must_be_stores` does, and for one that is being written."""
    must_be_stores(folders)
    for folder in folders:
        with Store(folder).lock():
            gone = folder.rename(folder.with_name(f".{folder.name}.gone"))
        shutil.rmtree(gone)


def rename(folder: Path, labels: Mapping[str, str]) -> Path:
    """Give a store other labels (model, dataset, family) and the folder's name that follows; gives the new folder.

    Raises ParameterError for an empty label, DataError for what is no store, or where the new folder is there already.
    """
    if empty := [name for name, label in labels.items() if not label.strip()]:
        raise ParameterError(f"an empty {empty[0]}", f"--{empty[0]}", "Give a name.")
    store = Store(folder)
    manifest = store.manifest
    notes = {**manifest["about"], **labels}
    checkpoint = f"@{notes['revision']}" if "revision" in notes else ""
    new = folder.parent / store_name(f"{Path(notes['model']).name}{checkpoint}-{notes['dataset']}", manifest["key"])
    with store.lock():
        if new != folder and new.exists():
            raise DataError("there is a store of that name already", str(new), "Remove one of them: rbp ranks rm.")
        store.relabel(notes)
        return folder if new == folder else folder.rename(new)


def store_name(name: str, key: dict[str, Any]) -> str:
    """Name a new store: the model and the data set, with codes of the text and of the measurement."""
    label = re.sub(r"[^\w.]+", "-", name).strip("-.")[:80] or "ranks"
    text = f"-{text_code(key['corpus'])}" if "corpus" in key else ""
    return f"{label}{text}-{_code(key)}"


def _code(key: dict[str, Any]) -> str:
    return measurement_digest(key) + (f"-{key['ordinal']}" if "ordinal" in key else "")


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Turn what the system says of a write that fails into a DataError."""
    try:
        yield
    except OSError as error:
        fault = f"cannot write: {(error.strerror or str(error)).lower()}"
        remedy = f"{write_remedy(error, 'give another folder: --out')} What is written stays good."
        raise DataError(fault, str(folder), remedy) from None


def read_part(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read the columns of a part: document, position, token, greater, equal, top (int32) and nll (float32).

    `top` is missing where it is not known.
    """
    table = parquet.ParquetFile(path).read()  # `read_table` imports pandas, and so does a column's `to_numpy`
    names = [name for name in SCHEMA.names if not table[name].null_count]
    return {name: np.concatenate([_values(chunk) for chunk in table[name].chunks]) for name in names}


def _read_whole(path: Path, manifest: dict[str, Any]) -> tuple[bytes, str | None]:
    """Read a part, and say what is wrong with it by the manifest."""
    if not path.is_file():
        return b"", f"{path.name} is missing"
    data = path.read_bytes()
    altered = hashlib.sha256(data).hexdigest() != manifest["parts"][path.name]["sha256"]
    return data, f"{path.name} is truncated or altered" if altered else None


def _values(chunk: arrow.Array) -> npt.NDArray[Any]:
    kind = np.dtype(chunk.type.to_pandas_dtype())
    return np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * kind.itemsize)


def _array(values: npt.NDArray[Any]) -> arrow.Array:
    """Convert values to Arrow's form: `arrow.array` imports pandas, to ask whether they are its own."""
    values = np.ascontiguousarray(values)
    return arrow.Array.from_buffers(arrow.from_numpy_dtype(values.dtype), len(values), [None, arrow.py_buffer(values)])


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@dataclass(frozen=True)
class RankStore:
    """A finished store.

    folder: where it lies; model, dataset, family: its labels; size: S; vocabulary: how many logits were
    counted; tokens: how many were ranked; manifest: all that is written about it; training: what is known of that.
    """

    folder: Path
    model: str
    dataset: str
    family: str
    size: int
    vocabulary: int
    tokens: int
    manifest: dict[str, Any]
    training: Training = field(default_factory=Training)

    @property
    def text(self) -> str | None:
        """Return a short name of the text, by its fingerprint; None where the manifest has none."""
        corpus = self.manifest["key"].get("corpus")
        return None if corpus is None else text_code(corpus)

    @property
    def protocol(self) -> dict[str, Any]:
        """Return how the text was read: `Protocol.as_dict`; {} where the manifest does not say."""
        entry = self.manifest["key"].get("protocol")
        return entry if isinstance(entry, dict) else {}

    @property
    def logits(self) -> str | None:
        """Return the dtype that the ranked logits are rounded to; None where no model gave any."""
        dtype = self.manifest["about"].get("logits")
        return dtype if isinstance(dtype, str) else None

    @property
    def characters_read(self) -> tuple[int, int] | None:
        """Return how many characters of the text were read, of how many; None where that is not known."""
        characters = self.manifest["about"].get("characters")
        return None if characters is None else (characters["read"], characters["of"])

    @property
    def bytes(self) -> int | None:
        """Return how many bytes of the text the ranked tokens stand for; None where that is not known."""
        count: int | None = self.manifest["about"].get("bytes")
        return count

    @property
    def sampled(self) -> SampleCheck | None:
        """Return what ranking a sample again found; None for a store that was made without."""
        check = self.manifest["about"].get("check")
        return None if check is None else SampleCheck(**check)

    @property
    def parts(self) -> list[Path]:
        """Return the files with the ranks, in order."""
        return [self.folder / "parts" / name for name in sorted(self.manifest["parts"])]

    def problems(self) -> list[str]:
        """List what is wrong with the parts: missing, truncated or altered; none if all is well."""
        return [wrong for path in self.parts if (wrong := _read_whole(path, self.manifest)[1])]

    def ranks(self) -> "pd.DataFrame":
        """Read one row per ranked token, by document and position: document, position, token, greater, equal, nll, top.

        top: the token of rank 1, missing where it is not known. Raises DataError if a part is missing, truncated or
        altered.
        """
        import pandas as pd

        tables = []
        for path in self.parts:
            data, wrong = _read_whole(path, self.manifest)
            if wrong:
                raise DataError(f"the store is damaged: {wrong}", str(self.folder), REDO)
            tables.append(parquet.ParquetFile(arrow.BufferReader(data)).read())  # of one file quicker than `read_table`
        table = arrow.concat_tables(tables)
        tokens: pd.DataFrame = table.drop_columns("top").to_pandas()
        tokens["top"] = table["top"].to_pandas(types_mapper={arrow.int32(): pd.Int32Dtype()}.get)
        places = (tokens["document"].to_numpy(np.int64) << 32) + tokens["position"].to_numpy(np.int64)
        if (np.diff(places) > 0).all():  # as most stores are written
            return tokens
        return tokens.sort_values(["document", "position"], ignore_index=True)


def open_store(folder: str | Path) -> RankStore:
    """Open the finished store in `folder`. Raises DataError if it is none, not finished, or of another version."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    if not manifest["complete"]:
        fault = "the measurement is not finished"
        raise DataError(fault, str(folder), "Run the command that made it again; it continues where it stopped.")
    notes = manifest["about"]
    return RankStore(
        folder=folder,
        model=notes["model"],
        dataset=notes["dataset"],
        family=notes["family"],
        size=notes["size"],
        vocabulary=notes["vocabulary"],
        tokens=manifest["tokens"],
        manifest=manifest,
        training=Training(**{name: notes[name] for name in NAMES if name in notes}),
    )


def is_store(folder: Path) -> bool:
    """Return whether a folder holds a manifest."""
    return (folder / MANIFEST).is_file()


def store_folders(paths: Iterable[str | Path]) -> list[Path]:
    """Find the stores among `paths`, each a store or a folder of stores. Raises DataError where there is none."""
    folders = []
    for path in map(Path, paths):
        here = [path] if is_store(path) else sorted(p.parent for p in path.glob(f"*/{MANIFEST}"))
        if not here:
            raise DataError("there is no rank store", str(path), "Make one with rbp extract, or give its folder.")
        folders += here
    return folders
