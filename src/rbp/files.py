"""Files and folders that appear whole or not at all: write beside, fsync, rename."""

import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: what `flock` says where the file system has no locks
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def _beside(path: Path) -> Path:
    """A hidden name beside ``path`` that is free: on the same file system, so that a rename is atomic."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")


def write_file(path: Path, content: str | bytes) -> None:
    """Write ``content`` (text as UTF-8) to ``path`` atomically; missing parent folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    try:
        with temporary.open("wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def canonical_json(value: Any, indent: int | None = None) -> str:
    """``value`` as JSON that is the same for equal values: keys sorted, no NaN (ValueError)."""
    return json.dumps(value, sort_keys=True, indent=indent, ensure_ascii=False, allow_nan=False)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` to ``path`` atomically as indented canonical JSON."""
    write_file(path, canonical_json(value, indent=1) + "\n")


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A new empty folder beside ``path``, removed on leaving unless `swap_in` has moved it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def swap_in(new: Path, path: Path) -> None:
    """Rename the folder ``new`` to ``path``; what was at ``path`` is replaced whole."""
    if not path.exists():
        new.rename(path)
        return
    old = _beside(path)
    path.rename(old)
    try:
        new.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old)


def files_below(folder: Path) -> list[Path]:
    """All files below ``folder``, but caches and hidden ones, sorted."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(p for p in found if not any(part[0] == "." or part == "__pycache__" for part in p.parts[-2:]))


def expanded(paths: Iterable[Path]) -> list[Path]:
    """Each file, and in place of each folder all `files_below` it."""
    return [file for path in paths for file in (files_below(path) if path.is_dir() else [path])]


def sha256(path: Path) -> str:
    """The SHA-256 checksum of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
