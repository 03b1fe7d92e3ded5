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
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from bench.common import Question
from rbp.kernel.names import Names
from rbp.kernel.problem import Problem

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
    """The kernel's code for a GPU, and the bytes of shared memory that it takes."""

    code: str
    shared: int


class Registers(NamedTuple):
    """What a thread takes, and the bytes that it spills."""

    taken: int
    spilled: int

    def suffice(self, mode: str) -> bool:
        """Whether they are enough, all but; the launch for the peak is rare, and may spill."""
        return self.spilled <= 16 or mode == "peak"


def compiled(capability: int, shared: int, variant: Variant, mode: str) -> Compiled:
    """Compile for a GPU of this capability (such as 90) and shared memory for a block."""
    from rbp.kernel import triton_kernel

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
    with elsewhere(capability):
        done = triton_kernel._kernel.warmup(*given, grid=(1,), **options)
    return Compiled(done.asm["ptx"], done.metadata.shared)


def on_all_cores(
    work: Callable[[int, int, Variant, str], Any], capability: int, shared: int, variants: Iterable[Variant]
) -> dict[tuple[Variant, str], Any]:
    """What `work`, such as `compiled`, gives for each variant and mode."""
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    asked = [(variant, mode) for variant in variants for mode in MODES]
    with ProcessPoolExecutor(min(cores(), len(asked)), get_context("spawn"), _as_environment, (plain,)) as pool:
        jobs = [pool.submit(work, capability, shared, *each) for each in asked]
        return {each: job.result() for each, job in zip(asked, jobs, strict=True)}


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def part(tiny: bool) -> list[Question]:
    """All that the other parts run, compiled before anything is timed: a part of `bench.gpu`."""
    return [Question("kernels", partial(_kernels, tiny))]


def _kernels(tiny: bool) -> dict[str, Any]:
    from bench import exactness, ranking  # late: they import this
    from rbp.kernel.triton_kernel import shape_for, shared_memory

    capability, shared, asked = 90, SHARED[90], [Variant("float32", 64)]
    if not tiny:
        card = torch.cuda.get_device_properties(0)
        capability, shared = 10 * card.major + card.minor, shared_memory(torch.device("cuda", 0))
        asked = [*exactness.variants(), *ranking.variants()]
    different = {(*each._replace(d=0), shape_for(getattr(torch, each.dtype), each.d, shared)): each for each in asked}
    done = on_all_cores(compiled, capability, shared, different.values())
    return {"kernels": len(done), "processes": min(cores(), len(done))}


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
def elsewhere(capability: int) -> Iterator[None]:
    """While Triton compiles for a GPU that need not be here."""
    from triton.runtime import driver

    before = driver._active
    driver.set_active(_Elsewhere(capability))
    try:
        yield
    finally:
        driver._active = before


def registers(capability: int, shared: int, variant: Variant, mode: str) -> tuple[Compiled, Registers]:
    """What `compiled` gives, and the registers that a thread takes, as the assembler says."""
    import triton

    found = compiled(capability, shared, variant, mode)

    assembler = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    architecture = f"sm_{capability}" + ("a" if capability >= 90 else "")
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.ptx").write_text(found.code)
        command = [str(assembler), "-v", f"--gpu-name={architecture}", "kernel.ptx", "-o", "kernel"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)  # noqa: S603
    said = [re.search(words, done.stderr) for words in (r"Used (\d+) registers", r"(\d+) bytes spill stores")]
    return found, Registers(*(int(each[1]) for each in said if each))


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
        for (variant, mode), found in on_all_cores(registers, capability, SHARED[capability], variants).items():
            code, own = found
            options = "all" if variant.bias else "none"
            print(
                f"sm_{capability} {variant.dtype:10}{variant.d:6} {options:8}{mode:8}"
                f"{own.taken:10}{own.spilled:9}{code.shared:9}"
            )
            bad += not own.suffice(mode)
    print(f"{bad} of them have too few registers")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
