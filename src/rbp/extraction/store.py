"""A rank store: the folder of one measurement, named by a digest of all that determines its ranks.

    NAME-DIGEST/
        manifest.json             what was measured, and how (key), and what is worth knowing (about)
        parts/00000-CHECKSUM.parquet …    one for each pack, its name holding the start of its SHA-256
        lock, lock-I-of-N         held by runs, shards

A part appears whole under its final name or not at all, and whoever reads it can tell whether it is whole: a
kill leaves nothing to repair. Columns: document, position, token, greater, equal (int32), nll (float32).
"""

import fcntl
import hashlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet

from rbp.errors import DataError
from rbp.extraction.manifest import FORMAT, MANIFEST, PART, REDO, digest, read, sealed
from rbp.files import lock, write_file, write_json

log = logging.getLogger(__name__)

SCHEMA = arrow.schema(
    [(name, arrow.int32()) for name in ("document", "position", "token", "greater", "equal")]
    + [("nll", arrow.float32())]
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
class Store:
    """A rank store's folder."""

    folder: Path

    @property
    def manifest(self) -> dict[str, Any]:
        """digest, key, about, packs, tokens, complete, checksum, and, once complete, parts {name: {sha256, rows}}.

        Raises DataError if it is missing, damaged or of another version.
        """
        return read(self.folder)

    def begin(self, key: dict[str, Any], about: dict[str, Any], packs: int, tokens: int) -> None:
        """Write the manifest of a measurement that begins or goes on; `about` is replaced."""
        manifest = {"format": FORMAT, "digest": digest(key), "key": key, "about": about}
        self._put({**manifest, "packs": packs, "tokens": tokens, "complete": False})

    def finish(self, about: dict[str, Any]) -> None:
        """Say that every pack is there and whole, and list the parts. Raises DataError if one is not."""
        manifest = self.manifest
        whole, _ = self.parts()
        missing = [pack for pack in range(manifest["packs"]) if pack not in whole]
        if missing:
            raise DataError(f"pack {missing[0]} is missing", str(self.folder), REDO)
        parts = {}
        for _, path in sorted(whole.items()):
            data = path.read_bytes()
            rows = parquet.read_metadata(arrow.BufferReader(data)).num_rows
            parts[path.name] = {"sha256": hashlib.sha256(data).hexdigest(), "rows": rows}
        self._put({**manifest, "about": {**manifest["about"], **about}, "complete": True, "parts": parts})

    def _put(self, manifest: dict[str, Any]) -> None:
        with full_disk(self.folder):
            write_json(self.folder / MANIFEST, sealed(manifest))

    def parts(self) -> tuple[dict[int, Path], list[Path]]:
        """The whole parts by pack, and the files that are not: damaged, or left over."""
        whole: dict[int, Path] = {}
        rest = []
        for path in sorted((self.folder / "parts").glob("*")):
            match = PART.fullmatch(path.name)
            if match and path.is_file() and int(match[1]) not in whole and _checksum(path.read_bytes()) == match[2]:
                whole[int(match[1])] = path
            elif not path.name.startswith("."):
                rest.append(path)
        return whole, rest

    def write(self, pack: int, columns: dict[str, Any]) -> None:
        """Write the part of `pack`: whole or not at all."""
        table = arrow.table({name: arrow.array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names})
        sink = arrow.BufferOutputStream()
        parquet.write_table(table, sink, **_SMALL)
        data = sink.getvalue().to_pybytes()
        with full_disk(self.folder):
            write_file(self.folder / "parts" / f"{pack:05d}-{_checksum(data)}.parquet", data)

    def clear(self) -> None:
        """Remove what a killed run left half-written. Only for the one run that has the whole store."""
        for folder in (self.folder, self.folder / "parts"):
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
                    what = "another run is working on this store"
                    raise DataError(what, str(self.folder), "Wait for it, or stop it; nothing is lost.")
                if held is None:
                    log.warning("%s: this file system has no locks, so another run is not noticed", self.folder)
            yield
        finally:
            for stream in streams:
                stream.close()


def place(out: Path, name: str, key: dict[str, Any]) -> Store:
    """The store of a measurement in the folder `out`: the one that is there under its digest, or a new name."""
    code = digest(key)
    found = sorted(out.glob(f"*-{code}"))
    label = re.sub(r"[^\w.]+", "-", name).strip("-.")[:80] or "ranks"
    return Store(found[0] if found else out / f"{label}-{code}")


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Turn what the system says of a write that fails into a DataError."""
    try:
        yield
    except OSError as error:
        what = f"cannot write: {(error.strerror or str(error)).lower()}"
        remedy = "Free some space, or give another folder: --out. What is written stays good."
        raise DataError(what, str(folder), remedy) from None


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
