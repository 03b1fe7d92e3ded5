"""End a process at a step of writing: the n-th open, write, fsync, rename, removal or new folder below a folder.

A write is then half-way done. Each trial is a process of its own (fork), so that a kill is a kill. Only a process with
a single thread may be forked so (see `apart`).
"""

import builtins
import faulthandler
import io
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

DONE, FAILED, KILLED = 0, 3, 9
SECONDS = 120.0  # for one trial, which takes a second or two


class _Steps:
    """Counts the steps of writing below a folder, and ends the process at one."""

    def __init__(self, folder: Path, last: int) -> None:
        self.folder, self.last, self.count = os.fspath(folder), last, 0

    def step(self, half: Callable[[], object] = lambda: None) -> None:
        self.count += 1
        if self.count == self.last:
            half()
            os._exit(KILLED)

    def mine(self, path: object) -> bool:
        if isinstance(path, int) or path is None:
            return False
        return os.path.realpath(os.fsdecode(path)).startswith(self.folder + os.sep)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = any(c in mode for c in "wax+") if mode else flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and self.mine(path):
                self.step()
        elif event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir") and self.mine(arguments[0]):
            self.step()

    def install(self) -> None:
        opened, fsync = io.open, os.fsync

        def open_(file: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
            stream = opened(file, mode, *more, **options)
            ours = isinstance(file, int) or self.mine(file)
            return _Torn(stream, self) if ours and any(c in mode for c in "wax+") else stream

        def fsync_(descriptor: Any) -> None:
            self.step()
            fsync(descriptor)

        builtins.open = io.open = open_
        os.fsync = fsync_
        sys.addaudithook(self.hook)


class _Torn:
    """An open file whose writes may fail half-way."""

    def __init__(self, stream: Any, steps: _Steps) -> None:
        self.stream, self.steps = stream, steps

    def write(self, data: Any) -> Any:
        def half() -> None:
            self.stream.write(data[: len(data) // 2])
            self.stream.flush()

        self.steps.step(half)
        return self.stream.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __enter__(self) -> "_Torn":
        self.stream.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self.stream.__exit__(*error)


class Outcome(NamedTuple):
    """How a trial ended (1: it took too long), after how many steps; what `act` gave, or the traceback if it failed."""

    code: int
    steps: int = 0
    given: Any = None


def trial(act: Callable[[], object], folder: Path, last: int = sys.maxsize) -> Outcome:
    """Run `act` in a process that ends at its step number `last` (from 1) below `folder`."""
    here, there = os.pipe()
    process = os.fork()
    if not process:
        faulthandler.dump_traceback_later(SECONDS, exit=True, file=there)
        code, steps = FAILED, _Steps(folder.resolve(), last)
        try:
            os.close(here)
            steps.install()
            given, code = act(), DONE
        except BaseException:
            given = traceback.format_exc()
        finally:
            os.write(there, pickle.dumps((steps.count, given)))  # all of it, past the injection
            os._exit(code)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        sent = pipe.read()
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code in (DONE, FAILED):
        return Outcome(code, *pickle.loads(sent))  # noqa: S301 (our own process has sent it)
    return Outcome(code, given=sent.decode(errors="replace"))
