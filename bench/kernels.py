"""`python -m bench.kernels`: the kernel compiled for GPUs that need not be here, and what it takes of their registers.

Triton brings the compiler. What it compiles lies in its cache, where a program that runs the kernel finds it: so
`bench.gpu` compiles on all cores what it is about to time. The exit code is 1 where a thread does not have registers
enough, and spills what they do not hold to memory.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from rbp.ranks.kernel.names import Names
from rbp.ranks.kernel.problem import Problem

MODES = "truth", "count", "peak"
SHARED = {80: 166_912, 86: 101_376, 89: 101_376, 90: 232_448}  # bytes of shared memory for a block, by capability


class Variant(NamedTuple):
    """What the kernel is compiled for: the dtype of what is multiplied, d, and which of the options there are."""

    dtype: str
    d: int
    bias: bool = False
    scale: bool = False
    softcap: bool = False
    rounded: bool = False


class Compiled(NamedTuple):
    """The kernel's code for a GPU; registers of a thread, bytes that it spills, bytes of shared memory."""

    code: str
    registers: int
    spilled: int
    shared: int

    def fits(self, mode: str) -> bool:
        """Whether the registers are enough, all but; the launch for the peak is rare, and may spill."""
        return self.spilled <= 16 or mode == "peak"


def compiled(capability: int, shared: int, variant: Variant, mode: str) -> Compiled:
    """Compile for a GPU of this capability (such as 90) and shared memory for a block."""
    from rbp.ranks.kernel import triton_kernel

    rows, vocabulary = 4096, 50257  # any: the code is the same
    dtype = getattr(torch, variant.dtype)
    problem = Problem(
        hidden=torch.empty(rows, variant.d, dtype=dtype, device="meta"),
        weight=torch.empty(vocabulary, variant.d, dtype=dtype, device="meta"),
        target=(target := torch.empty(rows, dtype=torch.int64, device="meta")),
        asked=target,
        bias=torch.empty(vocabulary, device="meta") if variant.bias else None,
        scale=0.5 if variant.scale else 1.0,
        softcap=30.0 if variant.softcap else None,
        rounding="bfloat16" if variant.rounded else None,
        dtype=torch.float32,
        names=Names(torch.empty(vocabulary, dtype=torch.int32, device="meta"), target, target),
    )
    work = triton_kernel.Work(problem, triton_kernel.shape_for(dtype, variant.d, shared))
    given, options = work.arguments(mode, slice(0, rows), work.truth)
    with _elsewhere(capability):
        done = triton_kernel._kernel.warmup(*given, grid=(1,), **options)
    return Compiled(done.asm["ptx"], *_registers(done.asm["ptx"], capability), done.metadata.shared)


def compile_all(
    capability: int, shared: int, variants: Iterable[Variant], processes: int | None = None
) -> Iterator[tuple[Variant, str, Compiled]]:
    """The same for many, in all modes, on all cores."""
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    with ProcessPoolExecutor(processes, get_context("spawn"), _as_environment, (plain,)) as pool:
        jobs: dict[tuple[Variant, str], Future[Compiled]] = {
            (variant, mode): pool.submit(compiled, capability, shared, variant, mode)
            for variant in variants
            for mode in MODES
        }
        for (variant, mode), job in jobs.items():
            yield variant, mode, job.result()


def _as_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


class _Elsewhere(NamedTuple):
    """What Triton asks a driver for, of a GPU that is elsewhere."""

    capability: int

    def get_current_device(self) -> int:
        return 1000 + self.capability  # no GPU's of this machine

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)


@contextmanager
def _elsewhere(capability: int) -> Iterator[None]:
    from triton.runtime import driver

    before = driver._active
    driver.set_active(_Elsewhere(capability))
    try:
        yield
    finally:
        driver._active = before


def _registers(code: str, capability: int) -> tuple[int, int]:
    """Registers of a thread, and bytes spilled, as the assembler says."""
    import triton

    assembler = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    architecture = f"sm_{capability}" + ("a" if capability >= 90 else "")
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.ptx").write_text(code)
        command = [str(assembler), "-v", f"--gpu-name={architecture}", "kernel.ptx", "-o", "kernel"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)  # noqa: S603
    found = [re.search(pattern, done.stderr) for pattern in (r"Used (\d+) registers", r"(\d+) bytes spill stores")]
    return int(found[0][1]), int(found[1][1])  # type: ignore[index]


def main() -> int:
    """Compile for some GPUs, and print what it takes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("capability", nargs="*", type=int, default=[80, 89, 90], help="such as 90; default: 80 89 90")
    given = parser.parse_args()
    tiles = ("float32", 768), ("bfloat16", 768), ("bfloat16", 4096)  # float16's are bfloat16's
    variants = [Variant(*tile, *[options] * 4) for tile in tiles for options in (False, True)]
    print(f"{'GPU':6}{'dtype':10}{'d':>6} {'options':8}{'launch':8}{'registers':>10}{'spilled':>9}{'shared':>9}")
    bad = 0
    for capability in given.capability:
        for variant, mode, found in compile_all(capability, SHARED[capability], variants):
            options = "all" if variant.bias else "none"
            print(
                f"sm_{capability} {variant.dtype:10}{variant.d:6} {options:8}{mode:8}"
                f"{found.registers:10}{found.spilled:9}{found.shared:9}"
            )
            bad += not found.fits(mode)
    print(f"{bad} of them have too few registers")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
