"""The Triton kernel: run by its interpreter, and compiled for GPUs that are not here, as Triton brings the compiler."""

import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from draws import loop_and_slow

from rbp.kernel.problem import Problem

pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="triton is not installed")

MODES = "truth", "count", "merge", "a tile's truth", "a tile"
SHARED = {80: 166_912, 89: 101_376, 90: 232_448}  # bytes of shared memory for a block, by capability


def compiled(capability: int, dtype: torch.dtype, d: int, options: bool, mode: str) -> tuple[str, int]:
    """Compile for a GPU of this capability (such as 90): its code, and the bytes of shared memory that it takes.

    dtype, d: of what is multiplied; options: with bias, scale, soft cap and rounding, or with none.
    """
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    from rbp.kernel import tiles, triton_kernel

    rows, vocabulary = 4096, 50257  # any: the code is the same
    problem = Problem(
        hidden=torch.empty(rows, d, dtype=dtype, device="meta"),
        weight=torch.empty(vocabulary, d, dtype=dtype, device="meta"),
        target=(target := torch.empty(rows, dtype=torch.int64, device="meta")),
        given_target=target,
        bias=torch.empty(vocabulary, device="meta") if options else None,
        scale=0.5 if options else 1.0,
        softcap=30.0 if options else None,
        rounding="bfloat16" if options else None,
        dtype=torch.float32,
        names=torch.empty(vocabulary, dtype=torch.int32, device="meta"),
    )
    if mode.startswith("a tile"):
        launches: Any = mock.MagicMock()
        with mock.patch.multiple(tiles, _count=launches, multiply=mock.DEFAULT, check_runs=mock.DEFAULT):
            tiles.tally(problem)
        kernel, launch = tiles._count, launches.__getitem__.return_value.call_args_list[mode == "a tile"]
        given, settings = launch.args, launch.kwargs
    else:
        work = triton_kernel.Work(problem, triton_kernel.shape_for(dtype, d, SHARED[capability]))
        some, kernel = slice(0, rows), triton_kernel._merge if mode == "merge" else triton_kernel._kernel
        given, settings = work.merged(some) if mode == "merge" else work.arguments(mode, some)
    gpu = SimpleNamespace(  # what Triton asks a driver for: the number is no GPU's of this machine
        get_current_device=lambda: 1000 + capability,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: GPUTarget("cuda", capability, 32),
    )
    with mock.patch.object(driver, "_active", gpu):
        done = kernel.warmup(*given, grid=(1,), **settings)
    return done.asm["ptx"], done.metadata.shared


PRODUCTS = {80: "mma.sync", 89: "mma.sync", 90: "wgmma.mma_async"}  # the units for short dtypes
SHARE = [(80, torch.bfloat16, 75, False, "count"), (90, torch.bfloat16, 4096, True, "count")]
SHARE += [(80, torch.float32, 75, True, "a tile")]
EVERY = [*product(PRODUCTS, (torch.float32, torch.bfloat16, torch.float16), (75, 4096), (False, True), MODES)]


@pytest.mark.long
@pytest.mark.parametrize("profile", loop_and_slow("few", "full"))
def test_the_kernel_by_the_interpreter(profile: str) -> None:
    """In a process of its own: the interpreter must be chosen before triton is imported."""
    file = Path(__file__).with_name("triton_cases.py")
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"--hypothesis-profile={profile}", "-m", "not slow" if profile == "few" else "", str(file)]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "passed" in done.stdout


@pytest.mark.parametrize("cases", loop_and_slow(SHARE, EVERY))
def test_it_compiles_and_fits(cases) -> None:
    for card, dtype, *others in cases:
        code, shared = compiled(card, dtype, *others)
        assert shared <= SHARED[card]
        assert (PRODUCTS[card] in code) == (dtype != torch.float32 and others[-1] in ("truth", "count"))
