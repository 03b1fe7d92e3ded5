"""Let a step of writing fail: the n-th open, write, fsync, rename, removal or new folder below a folder.

Each trial is a process of its own (fork), so that a kill is a kill. Only a process with a single thread may be forked
so (see `apart`). The faults:

    full     from that step on nothing can be made or grow, and a write gets half-way (ENOSPC)
    killed   the process ends there, a write half-way done
"""

import builtins
import errno
import faulthandler
import io
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rbp.errors import RbpError
from rbp.io import refusal

KINDS = ("full", "killed")
GROWING = ("open", "write", "mkdir")  # what a full disk refuses
DONE, CLEAN, TRACEBACK, KILLED = 0, 2, 3, 9
SECONDS = 120.0  # for one trial, which takes a second or two


class _Steps:
    """Counts the steps of writing below a folder, and lets one fail."""

    def __init__(self, folder: Path, failing: int, kind: str) -> None:
        self.folder, self.failing, self.kind = os.fspath(folder), failing, kind
        self.count, self.hit = 0, False

    def step(self, name: str, half: Callable[[], object] = lambda: None) -> None:
        self.count += 1
        if self.count < self.failing or (self.kind == "full" and name not in GROWING):
            return
        self.hit = True
        half()
        if self.kind == "killed":
            os._exit(KILLED)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.folder)

    def mine(self, path: object) -> bool:
        if isinstance(path, int) or path is None:
            return False
        return os.path.realpath(os.fsdecode(path)).startswith(self.folder + os.sep)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = any(c in mode for c in "wax+") if mode else flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and self.mine(path):
                self.step("open")
        elif event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir") and self.mine(arguments[0]):
            self.step(event.removeprefix("os."))

    def install(self) -> None:
        opened, fsync = io.open, os.fsync

        def open_(file: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
            stream = opened(file, mode, *more, **options)
            ours = isinstance(file, int) or self.mine(file)
            return _Torn(stream, self) if ours and any(c in mode for c in "wax+") else stream

        def fsync_(descriptor: Any) -> None:
            self.step("fsync")
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

        self.steps.step("write", half)
        return self.stream.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __enter__(self) -> "_Torn":
        self.stream.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self.stream.__exit__(*error)


class Outcome(NamedTuple):
    """How a trial ended (1: it took too long); whether its fault came about; what `act` gave, if it is DONE."""

    code: int
    hit: bool
    steps: int
    said: str
    given: Any = None


def trial(act: Callable[[], object], folder: Path, failing: int = sys.maxsize, kind: str = "full") -> Outcome:
    """Run `act` in a process whose step number `failing` (from 1) below `folder` fails."""
    here, there = os.pipe()
    process = os.fork()
    if not process:
        faulthandler.dump_traceback_later(SECONDS, exit=True, file=there)
        code, said, result, steps = TRACEBACK, "", None, _Steps(folder.resolve(), failing, kind)
        try:
            os.close(here)
            steps.install()
            result = act()
            code = DONE
        except RbpError as error:
            code, said = CLEAN, str(error)
        except OSError as error:  # the command line says it in two lines
            code, said = (CLEAN if refusal(error) else TRACEBACK), traceback.format_exc()
        except BaseException:
            said = traceback.format_exc()
        finally:
            os.write(there, pickle.dumps((steps.hit, steps.count, said, result)))  # all of it, past the injection
            os._exit(code)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        sent = pipe.read()
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if code in (DONE, CLEAN, TRACEBACK):
        return Outcome(code, *pickle.loads(sent))  # noqa: S301 (our own process has sent it)
    return Outcome(code, True, 0, f"it ended with {code}: {sent.decode(errors='replace')}")
