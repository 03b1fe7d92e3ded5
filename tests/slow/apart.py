"""Work in a process of its own, with a bound on its time.

A plain fork copies the locks of all threads and none of the threads, so the copy may wait for ever. These processes are
forked from a server that has only imported what they need, has one thread, and draws no progress bars.
"""

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

BOUND = 300.0  # seconds for anything that takes a few
IMPORTED = ["__main__", "writes", "pyarrow.parquet", "transformers.models.gpt2.modeling_gpt2"]
#: no threads of OpenMP, OpenBLAS, the tokenizers or Arrow's allocator, in the server and in all that comes from it
ALONE = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}


def _server() -> Any:
    """The context whose processes come from the server, which is begun with the first."""
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with mock.patch.dict(os.environ, ALONE | {"PYTHONPATH": os.pathsep.join(sys.path)}):
        forkserver.ensure_running()
    return context


class Apart:
    """A function at work in a process of its own, with its arguments; both are sent there, so both can be pickled."""

    def __init__(self, do: Callable[..., object], *arguments: object) -> None:
        context = _server()
        self._answer, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(theirs, do, arguments))
        self._process.start()
        theirs.close()
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """Its exit code (0: done; 1: an error; negative: a signal), or None while it runs."""
        code: int | None = self._process.exitcode
        return code

    def result(self, seconds: float = BOUND) -> Any:
        """What the function gives, a few kB at most. Raises AssertionError if it fails or takes longer, with words."""
        code = ended(self, seconds)
        answer = self._answer.recv() if self._answer.poll() else ""
        assert code == 0, f"it ended with {code}: {answer}"
        return answer


def apart(do: Callable[..., object], *arguments: object, seconds: float = BOUND) -> Any:
    return Apart(do, *arguments).result(seconds)


def _work(answer: Connection, do: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    try:
        answer.send(do(*arguments))
    except BaseException:
        answer.send(traceback.format_exc()[-3000:])
        os._exit(1)
    os._exit(0)


def until(there: Callable[[], bool], process: Apart | None = None) -> None:
    latest = time.monotonic() + BOUND
    while not there():
        assert process is None or process.poll() is None, "it has ended before"
        assert time.monotonic() < latest, "it does not come to it"
        time.sleep(0.02)


def ended(process: "Apart | subprocess.Popen[bytes]", seconds: float = BOUND) -> int:
    """The exit code of a process, once it has ended. One that takes longer is killed, with all that it has started."""
    until = time.monotonic() + seconds
    while (code := process.poll()) is None:
        if time.monotonic() > until:
            kill(process.pid)
            raise AssertionError(f"it has not ended after {seconds:.0f} s")
        time.sleep(0.005)
    return code


def kill(pid: int, by_itself: bool = False) -> None:
    """SIGKILL to a process, and to all that it has started unless it is to die alone."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        tree = [] if by_itself else process.children(recursive=True)
        for victim in (process, *tree):
            with suppress(psutil.NoSuchProcess):
                victim.kill()


def content(folder: Path, pattern: str = "**/*") -> dict[str, bytes]:
    """The files of a folder that match, but hidden ones and locks."""
    found = {path.relative_to(folder): path for path in folder.glob(pattern) if path.is_file()}
    hidden = [name for name in found if any(part.startswith((".", "lock")) for part in name.parts)]
    return {name.as_posix(): path.read_bytes() for name, path in found.items() if name not in hidden}
