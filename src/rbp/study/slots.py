"""A GPU for each job on a machine without a scheduler: a lock for each GPU, held as long as the job lives.

The locks lie in one folder for the whole machine, so that two studies do not take one GPU twice.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rbp.files import lock


def folder() -> Path:
    """Where this machine keeps the locks of this user."""
    return Path(tempfile.gettempdir()) / f"rbp-gpus-{os.getuid()}"


@contextmanager
def one_of(gpus: Sequence[str], place: Path | None = None) -> Iterator[str]:
    """Wait until one of `gpus` (as `CUDA_VISIBLE_DEVICES` names them) is free, and hold it.

    The system lets go of it when the process ends, however it ends. place: of the locks, `folder` by default.
    """
    place = place or folder()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        for gpu in gpus:
            with (place / f"gpu-{gpu}.lock").open("a+") as stream:
                if lock(stream) is False:
                    continue
                yield gpu
                return
        time.sleep(0.2)
