"""The Triton kernel: run by its interpreter, and compiled for GPUs that are not here, as Triton brings the compiler."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from draws import loop_and_slow

from rbp.kernel.problem import problem

pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="triton is not installed")


@pytest.mark.long
@pytest.mark.parametrize("profile", loop_and_slow("few", "full"))
def test_the_kernel_by_the_interpreter(profile: str) -> None:
    """In a process of its own: the interpreter must be chosen before triton is imported."""
    file = Path(__file__).with_name("test_linear_rank.py")
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"--hypothesis-profile={profile}", "-k", "tiles or triton", str(file)]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "passed" in done.stdout


@pytest.mark.parametrize("mode", ["truth", "count", "merge"])
def test_it_compiles_for_an_h100_and_fits(mode: str) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    from rbp.kernel import triton_kernel

    hidden, weight = torch.ones(64, 4096, dtype=torch.bfloat16), torch.ones(500, 4096, dtype=torch.bfloat16)
    given = problem(hidden, weight, torch.zeros(64).long(), torch.ones(500), 0.5, 30.0, None, "bfloat16")
    most = 232_448  # bytes of shared memory for a block
    work = triton_kernel.Work(given, triton_kernel.shape_for(given.hidden.dtype, 4096, most))
    kernel = triton_kernel._merge if mode == "merge" else triton_kernel._kernel
    arguments, settings = work.merged(slice(0, 64)) if mode == "merge" else work.arguments(mode, slice(0, 64))
    gpu = SimpleNamespace(  # what Triton asks a driver for: the number is no GPU's of this machine
        get_current_device=lambda: 1000,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
    )
    with mock.patch.object(driver, "_active", gpu):
        done = kernel.warmup(*arguments, grid=(1,), **settings)
    assert done.metadata.shared <= most
    assert ("wgmma.mma_async" in done.asm["ptx"]) == (mode != "merge")  # the unit for short dtypes
