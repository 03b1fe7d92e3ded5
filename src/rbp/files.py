"""Files and folders that appear whole or not at all: write beside, fsync, rename."""

import ctypes
import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


def parse_json(data: str | bytes) -> Any:
    """The value that JSON text spells. Raises ValueError for all that is no JSON, however deeply it is nested."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A new empty folder beside ``path``, removed on leaving unless `swap_in` has moved it.

    It is held by a lock that ends with this process, so that the next one can tell what a kill has left behind,
    and removes it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        temporary = _beside(path)
        temporary.mkdir()
        held = os.open(temporary, os.O_RDONLY)
        if _hold(held) is not False and _is(temporary, held):
            break
        os.close(held)  # another process took it for left behind before it was held
    try:
        _clear_dead(path)
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(held)


def _hold(descriptor: int) -> bool | None:
    """Lock an open folder: False if another process has it, None where the file system knows no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is(path: Path, descriptor: int) -> bool:
    """Whether the folder at ``path`` is still the open one."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _clear_dead(path: Path) -> None:
    """Remove folders beside ``path`` whose process has ended without removing them."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"):
        try:
            held = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            if _hold(held):
                shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(held)


def swap_in(new: Path, path: Path) -> None:
    """Rename the folder ``new`` to ``path``; what was at ``path`` is replaced whole, and then removed.

    Whoever looks at ``path`` sees the old content or the new at any moment, and so it is after a kill, where the
    system can exchange two folders (Linux); elsewhere a kill between two renames leaves none for the next run.
    """
    try:
        new.rename(path)
        return
    except OSError as error:  # as for a folder that is not empty
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
    if not _exchange(new, path):
        old = _beside(path)
        path.rename(old)
        try:
            new.rename(path)
        except OSError:
            old.rename(path)
            raise
        new = old
    shutil.rmtree(new, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the system cannot."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return function is not None and function(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0


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
