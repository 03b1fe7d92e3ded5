"""Work in a process of its own.

A plain fork copies the locks of all threads and none of the threads, so the copy may wait for ever. These processes are
forked from a server that has only imported what they need, has one thread, and draws no progress bars.
"""

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver, get_context
from pathlib import Path
from typing import Any
from unittest import mock

IMPORTED = ["__main__", "writes", "pyarrow.parquet", "transformers.models.gpt2.modeling_gpt2"]
#: no threads of OpenMP, OpenBLAS, the tokenizers or Arrow's allocator, in the server and in all that comes from it
ALONE = {
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
}


def server() -> Any:
    """The context whose processes come from the server, which is begun with the first."""
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with mock.patch.dict(os.environ, ALONE | {"PYTHONPATH": os.pathsep.join(sys.path)}):
        forkserver.ensure_running()
    return context


def begin(do: Callable[..., object], *arguments: object) -> Any:
    """A process that does this, and that no other one waits for."""
    process = server().Process(target=do, args=arguments, daemon=True)
    process.start()
    return process


def apart(do: Callable[..., Any], *arguments: object) -> Any:
    """What the function gives in a process of its own; it raises what that raises."""
    with ProcessPoolExecutor(1, mp_context=server()) as pool:
        return pool.submit(do, *arguments).result()


def until(there: Callable[[], bool], seconds: float = 300.0) -> None:
    latest = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < latest, "it does not come to it"
        time.sleep(0.02)


def content(folder: Path, pattern: str = "**/*") -> dict[str, bytes]:
    """The files of a folder that match, but hidden ones and locks."""
    found = {path.relative_to(folder): path for path in folder.glob(pattern) if path.is_file()}
    hidden = [name for name in found if any(part.startswith((".", "lock")) for part in name.parts)]
    return {name.as_posix(): path.read_bytes() for name, path in found.items() if name not in hidden}
