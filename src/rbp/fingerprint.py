"""Name files by their contents: SHA-256 of pieces, hashed side by side, and not again while a file stays as it was.

What was hashed is noted in the user's cache folder by path, size, times and inode, as git does in its index. The same
marks show whether files were exchanged between their fingerprint and the moment they were loaded.
"""

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from rbp.errors import DataError
from rbp.io import cache_folder, canonical_json, parse_json, write_json
from rbp.names import and_more
from rbp.processes import cores

PIECE = 64 * 2**20  # bytes
_NOTED = 2**20  # bytes: to hash a smaller file takes as long as to look it up
_SETTLED = 2 * 10**9  # nanoseconds: a file written later than that may be written again within a tick of its clock

Marks = tuple[int, ...]  # size (bytes), time of writing and of change (ns), inode


def fingerprint(paths: Sequence[Path]) -> str:
    """Digest the contents of files, and, of several, their names; in hexadecimal.

    A file of one PIECE has its SHA-256; a larger one that of its pieces' digests, then a hyphen and their number.
    Raises DataError for a file that cannot be read, or changes meanwhile.
    """
    before = marks_of(paths)
    noted = _read_index()
    digests = {path: _look_up(noted, path, marks) for path, marks in before.items()}
    new = [path for path, digest in digests.items() if digest is None]
    starts = [(path, start) for path in new for start in range(0, max(1, before[path][0]), PIECE)]
    pieces: dict[Path, list[str]] = {}
    begun = time.time_ns()
    with ThreadPoolExecutor(cores()) as pool:  # hashlib releases the interpreter's lock
        for (path, _), digest in zip(starts, pool.map(lambda piece: _hash_piece(*piece), starts), strict=True):
            pieces.setdefault(path, []).append(digest)
    must_be_unchanged(before, marks_of(paths))
    digests |= {path: _join(piece_digests) for path, piece_digests in pieces.items()}
    settled = [path for path in new if before[path][0] >= _NOTED and max(before[path][1:3]) < begun - _SETTLED]
    if settled:
        _write_index({str(path.resolve()): [*before[path], digests[path]] for path in settled})
    if len(paths) == 1:
        return str(digests[paths[0]])
    return sha256("".join(f"{path.name} {digests[path]}\n" for path in paths).encode()).hexdigest()


def digest_bytes(data: Any) -> str:
    """Digest a buffer of bytes as `fingerprint` does a file that holds them."""
    view = memoryview(data)
    pieces = [view[start : start + PIECE] for start in range(0, max(1, len(view)), PIECE)]
    if len(pieces) == 1:
        return sha256(view).hexdigest()
    with ThreadPoolExecutor(cores()) as pool:
        return _join(list(pool.map(lambda piece: sha256(piece).hexdigest(), pieces)))


def marks_of(paths: Sequence[Path]) -> dict[Path, Marks]:
    """Return what changes with each file.

    Raises DataError for a file that is not there.
    """
    try:
        return {
            path: (now.st_size, now.st_mtime_ns, now.st_ctime_ns, now.st_ino) for path in paths for now in [path.stat()]
        }
    except OSError as error:
        raise _unreadable(error) from None


def must_be_unchanged(before: Mapping[Path, Marks], now: Mapping[Path, Marks]) -> None:
    """Raise DataError unless the files, and their marks, are as they were."""
    if other := sorted(str(path) for path in before.keys() | now.keys() if before.get(path) != now.get(path)):
        remedy = "Wait for what writes it, such as a training, or give a copy; then run again."
        raise DataError("the file was changed while it was read", and_more(other), remedy)


def _hash_piece(path: Path, start: int) -> str:
    digest, left = sha256(), PIECE
    buffer = memoryview(bytearray(2**20))
    try:
        with path.open("rb", buffering=0) as stream:
            stream.seek(start)
            while left and (count := stream.readinto(buffer[:left])):
                digest.update(buffer[:count])
                left -= count
    except OSError as error:
        raise _unreadable(error) from None
    return digest.hexdigest()


def _unreadable(error: OSError) -> DataError:
    return DataError(f"cannot read the file: {error.strerror}", str(error.filename), "Check the path, and its rights.")


def _join(pieces: Sequence[str]) -> str:
    """Join the digests of a file's pieces into one, with their number: a file of such digests has another name."""
    return pieces[0] if len(pieces) == 1 else f"{sha256(''.join(pieces).encode()).hexdigest()}-{len(pieces)}"


def _index() -> Path:
    return cache_folder() / "fingerprints.json"


def _seal(entries: dict[str, Any]) -> str:
    return sha256(canonical_json(entries).encode()).hexdigest()


def _read_index() -> dict[str, Any]:
    """Return marks and digest of each file that is noted, by its path; nothing, where the index is damaged."""
    try:
        index = parse_json(_index().read_bytes())
        return index["files"] if index["seal"] == _seal(index["files"]) else {}
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):  # the last: nobody has a home
        return {}


def _look_up(noted: Mapping[str, Any], path: Path, marks: Marks) -> str | None:
    *noted_marks, digest = noted.get(str(path.resolve()), [None])
    return digest if noted_marks == [*marks] else None


def _write_index(new: Mapping[str, Any]) -> None:
    """Add files to the index, without those that are gone; what another process adds meanwhile may be hashed again."""
    entries = {**_read_index(), **new}
    with suppress(OSError, RuntimeError):  # a folder that cannot be written: the next call hashes again
        there = {name: entry for name, entry in entries.items() if os.path.exists(name)}  # noqa: PTH110
        write_json(_index(), {"files": there, "seal": _seal(there)})
