"""Compile the kernel for a GPU that need not be here: Triton brings the compiler."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

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


def compiled(capability: int, variant: Variant, mode: str) -> tuple[str, int]:
    """Compile for a GPU of this capability (such as 90): its code, and the bytes of shared memory that it takes."""
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
    work = triton_kernel.Work(problem, triton_kernel.shape_for(dtype, variant.d, SHARED[capability]))
    given, options = work.arguments(mode, slice(0, rows), work.truth)
    with elsewhere(capability):
        done = triton_kernel._kernel.warmup(*given, grid=(1,), **options)
    return done.asm["ptx"], done.metadata.shared


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
