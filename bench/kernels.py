"""Compile the kernel for a GPU that need not be here: Triton brings the compiler.

What it compiles lies in its cache, where a program that runs the kernel finds it: so `bench.gpu` compiles on all cores
what it is about to time.
"""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import torch

from bench.common import Question
from rbp.kernel.names import Names
from rbp.kernel.problem import Problem

MODES = "truth", "count", "peak"
SHARED = {80: 166_912, 89: 101_376, 90: 232_448}  # bytes of shared memory for a block, by capability


class Variant(NamedTuple):
    """A variant of the kernel: the dtype of what is multiplied, d, and which of the options there are."""

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


def compiled(capability: int, shared: int, variant: Variant, mode: str) -> Compiled:
    """Compile for a GPU of this capability (such as 90) and shared memory for a block."""
    from rbp.kernel import triton_kernel

    rows, vocabulary = 4096, 50257  # any: the code is the same
    dtype = getattr(torch, variant.dtype)
    problem = Problem(
        hidden=torch.empty(rows, variant.d, dtype=dtype, device="meta"),
        weight=torch.empty(vocabulary, variant.d, dtype=dtype, device="meta"),
        target=(target := torch.empty(rows, dtype=torch.int64, device="meta")),
        given_target=target,
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


def compile_on_all_cores(capability: int, shared: int, variants: Iterable[Variant]) -> int:
    """Compile each variant in each mode; gives how many that are."""
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    cases = [(variant, mode) for variant in variants for mode in MODES]
    with ProcessPoolExecutor(min(cores(), len(cases)), get_context("spawn"), _as_environment, (plain,)) as pool:
        for job in [pool.submit(compiled, capability, shared, *each) for each in cases]:
            job.result()
    return len(cases)


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def part(tiny: bool) -> list[Question]:
    """Compile all that the other parts run before anything is timed: a part of `bench.gpu`."""
    return [Question("kernels", partial(_kernels, tiny))]


def _kernels(tiny: bool) -> dict[str, Any]:
    from bench import exactness, ranking  # late: they import this
    from rbp.kernel.triton_kernel import shape_for, shared_memory

    capability, shared, chosen = 90, SHARED[90], [Variant("float32", 64)]
    if not tiny:
        card = torch.cuda.get_device_properties(0)
        capability, shared = 10 * card.major + card.minor, shared_memory(torch.device("cuda", 0))
        chosen = [*exactness.variants(), *ranking.variants()]
    different = {(*each._replace(d=0), shape_for(getattr(torch, each.dtype), each.d, shared)): each for each in chosen}
    return {"kernels": compile_on_all_cores(capability, shared, different.values()), "processes": cores()}


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
    """Have Triton compile for a GPU that need not be here."""
    from triton.runtime import driver

    before = driver._active
    driver.set_active(_Elsewhere(capability))
    try:
        yield
    finally:
        driver._active = before
