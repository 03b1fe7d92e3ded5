"""Several GPUs: a process on each, with a share of the packs of every store."""

import os
import subprocess
import sys
from collections.abc import Sequence

from rbp.errors import DataError


def gpus() -> list[str]:
    """The GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    import torch

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    count = torch.cuda.device_count()
    return given.split(",")[:count] if given else [str(i) for i in range(count)]


def run_shards(arguments: Sequence[str], environments: Sequence[dict[str, str]]) -> None:
    """Run `rbp extract` with `arguments` once for each environment, each with its shard, and wait for all.

    If one fails, the others finish what they do: nothing of it is lost. Raises DataError then.
    """
    running = [
        subprocess.Popen(  # noqa: S603  # the user's own arguments
            [sys.executable, "-m", "rbp.cli", "extract", *arguments, "--shard", f"{i}/{len(environments)}"],
            env={**os.environ, **environment},
        )
        for i, environment in enumerate(environments, 1)
    ]
    try:
        codes = [process.wait() for process in running]
    finally:
        for process in running:
            process.terminate()
    if failed := [i for i, code in enumerate(codes, 1) if code]:
        what = f"shard {failed[0]} of {len(codes)} failed"
        raise DataError(what, f"exit {codes[failed[0] - 1]}", "See its message above; run again to go on.")
