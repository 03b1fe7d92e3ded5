"""Write files and folders whole or not at all: write beside, fsync, rename."""

import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rbp.errors import DataError

#: what `flock` says where the file system has no locks; the last, where it has none for folders (NFS)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)


STALE = 24 * 3600.0  # seconds after which a temporary file or folder is what a kill has left


def _beside(path: Path) -> Path:
    """Return a free hidden name beside ``path``: on the same file system, so that a rename is atomic.

    What earlier processes have left there under such names, a day ago or more, is removed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"):
        with suppress(FileNotFoundError):
            if time.time() - left.lstat().st_mtime > STALE:
                _remove(left)
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")


def write_file(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Write ``content`` (text as UTF-8) to ``path`` atomically; missing parent folders are made.

    mode: who may read and write it, as far as the process's umask lets them.
    """
    temporary = _beside(path)
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        _remove(temporary)
        raise


def canonical_json(value: Any, indent: int | None = None) -> str:
    """Write ``value`` as JSON that is the same for equal values: keys sorted, no NaN (ValueError)."""
    return json.dumps(value, sort_keys=True, indent=indent, ensure_ascii=False, allow_nan=False)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` to ``path`` atomically as indented canonical JSON."""
    write_file(path, canonical_json(value, indent=1) + "\n")


def parse_json(data: str | bytes, objects: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON text. Raises ValueError for all that is no JSON, however deeply it is nested.

    objects: what makes an object of its names and values, of which dict keeps the last of each name.
    """
    try:
        return json.loads(data, object_pairs_hook=objects)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Make an empty folder beside ``path``, removed on leaving unless `swap_in` has moved it."""
    temporary = _beside(path)
    temporary.mkdir()
    try:
        yield temporary
    finally:
        _remove(temporary)


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Make an empty folder for this user alone, where the system keeps temporary ones; removed on leaving."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


def lock(stream: IO[Any] | int, kind: int = fcntl.LOCK_EX | fcntl.LOCK_NB) -> bool | None:
    """Lock an open file or folder: False if another process has it, None where the file system knows no locks.

    The system lets go of it when the file is closed, or this process ends, however it ends. Raises OSError for what
    else may be wrong.
    """
    try:
        fcntl.flock(stream, kind)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return True


@contextmanager
def locked(folder: Path, fault: str) -> Iterator[None]:
    """Keep other processes off a folder, as `lock` does. Raises DataError, with `fault`, if another one holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as stream:
        if lock(stream) is False:
            raise DataError(fault, str(folder), "Wait for it, or stop it and start again: nothing is lost.")
        yield


def _remove(path: Path) -> None:
    """Remove a file or a folder; if that fails, it is left, and removed a day later."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def swap_in(new: Path, path: Path) -> None:
    """Rename the folder ``new`` to ``path``; what was at ``path`` is replaced whole, and then removed.

    By two renames, between which there is nothing at ``path``: a kill there leaves none for the next run.
    """
    old = _beside(path)
    with suppress(FileNotFoundError):
        path.rename(old)
    try:
        new.rename(path)
    except OSError:
        with suppress(FileNotFoundError):
            old.rename(path)
        raise
    _remove(old)


def label(path: Path) -> str:
    """Name a file in messages: relative to the working folder where it lies inside it, else by its whole path."""
    path, here = path.resolve(), Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)


def refusal(error: OSError) -> str | None:
    """Say why the system refused a write (a disk that is full, read-only or broken); None for other errors."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):  # of several copies
        return str(error.args[0][0][-1])
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO):
        return None
    return (error.strerror or str(error)).lower() + (f" ({error.filename})" if error.filename else "")


def write_remedy(error: OSError, folder: str) -> str:
    """Say what to do about a write that failed; `folder`: how to name another one."""
    full = isinstance(error, shutil.Error) or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return f"Free some space, or {folder}." if full else f"{folder[:1].upper()}{folder[1:]}."


def exists(name: str | Path) -> bool:
    """Return whether a file or folder of this name exists; False for what cannot be a name, as a very long text."""
    return os.path.exists(name)  # noqa: PTH110 (pathlib's raises for such a name)


def home_expanded(name: str) -> Path:
    """Expand ~ to a home folder in a user's path; the path stays as it is where there is no such user."""
    return Path(name if "\0" in name else os.path.expanduser(name))  # noqa: PTH111 (pathlib's raises)


def cache_folder() -> Path:
    """Return the user's folder for what can be had again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rbp"


def files_below(folder: Path) -> list[Path]:
    """List all files below ``folder``, but caches and hidden ones, sorted."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(p for p in files if not any(part[0] == "." or part == "__pycache__" for part in p.parts[-2:]))


def expanded(paths: Iterable[Path]) -> list[Path]:
    """List each file, and in place of each folder all `files_below` it."""
    return [file for path in paths for file in (files_below(path) if path.is_dir() else [path])]


def sha256(path: Path) -> str:
    """Return the SHA-256 checksum of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
