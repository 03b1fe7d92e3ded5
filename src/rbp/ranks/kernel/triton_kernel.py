"""Ranks by one fused GPU kernel: a tiled product, counted and summed before it leaves the registers.

Every program computes one tile of logits, BM positions by BN tokens, with a float32 accumulator, and writes two
numbers per position: both counts, packed, and Σ exp(z − base). The target's logit comes from the same tile
computation in a first launch, whose columns are the rows' own targets, and stands for all columns with the target's
row of weight, as in `blocked`: a target ties with itself and its equals, whatever a product does at the edges of a
tile. Under TRITON_INTERPRET=1, set before triton is imported, it runs on the CPU, for tests.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from rbp.core.errors import ParameterError
from rbp.ranks.kernel.problem import Problem, Tally, finite

LAUNCH = 4096  # rows of one launch: their hidden states stay in the L2 cache, their partial sums below 35 MB
PACK = tl.constexpr(65536)  # a tile's two counts travel as greater × PACK + equal

INTERPRETED: bool = triton.knobs.runtime.interpret


class Shape(NamedTuple):
    """One tile: rows, columns (at least as many), steps along d; warps and pipeline stages."""

    rows: int
    columns: int
    step: int
    warps: int
    stages: int


def shape_for(dtype: torch.dtype, d: int, shared: int) -> Shape:
    """The tile for products in `dtype` over d, on a device with `shared` bytes of shared memory per block."""
    if dtype == torch.float32:  # IEEE products run on the plain units
        return Shape(64, 64, 32, warps=4, stages=2)
    if d >= 2048 and shared >= 3 * (128 + 256) * 64 * 2:  # the widest tile whose accumulator fits the registers
        return Shape(128, 256, 64, warps=8, stages=3)
    return Shape(128, 128, 64, warps=4, stages=3)  # two fit on a multiprocessor: one multiplies, one counts


def tally(problem: Problem, shape: Shape | None = None) -> Tally:
    """Count by the kernel, LAUNCH rows at a time. Memory: 16 bytes × LAUNCH × V / columns of a tile.

    Raises ParameterError for float64, and where there is no GPU and no interpreter.
    """
    device = problem.hidden.device
    if device.type != "cuda" and not INTERPRETED:
        raise ParameterError(f"the triton kernel does not run on {device}", "backend", 'Take backend="blocked".')
    if problem.dtype == torch.float64:
        raise ParameterError("the triton kernel sums in float32", "backend", 'Take backend="blocked" for float64.')
    if shape is None:
        dtype = torch.promote_types(problem.hidden.dtype, problem.weight.dtype)
        shape = shape_for(dtype, problem.hidden.shape[1], _shared_memory(device))
    starts = range(0, max(problem.hidden.shape[0], 1), LAUNCH)
    names = problem.names()
    parts = [_launch(problem, names, slice(start, start + LAUNCH), shape) for start in starts]
    return Tally(*(torch.cat(field) for field in zip(*parts, strict=True)))


def _launch(problem: Problem, names: torch.Tensor, rows: slice, shape: Shape) -> Tally:
    """The tally of at most LAUNCH rows; names: those of the columns."""
    weight, target = problem.weight, problem.target[rows]
    if weight.stride(1) != 1:
        weight = weight.contiguous()
    dtype = torch.promote_types(problem.hidden.dtype, weight.dtype)
    if INTERPRETED and dtype == torch.bfloat16:
        dtype = torch.float32  # triton 3.9's interpreter multiplies bfloat16 as the integers that encode it
    hidden = problem.hidden[rows].to(dtype).contiguous()
    height, device = len(hidden), hidden.device
    tiles = triton.cdiv(weight.shape[0], shape.columns)
    own = names[target]

    def run(mode: str, base: torch.Tensor, counts: torch.Tensor, sums: torch.Tensor) -> None:
        grid = (triton.cdiv(height, shape.rows) * (1 if mode == "truth" else tiles),)
        if height:
            _kernel[grid](
                hidden, weight, target, problem.bias, names, own, truth, base, counts, sums,
                height, weight.shape[0], hidden.shape[1], weight.stride(0), counts.shape[-1],
                problem.scale, problem.softcap or 1.0,
                MODE=mode, BIAS=problem.bias is not None, SCALE=problem.scale != 1.0,
                CAP=problem.softcap is not None, ROUND=problem.rounding is not None,
                WHOLE=hidden.shape[1] % shape.step == 0,
                BM=shape.rows, BN=shape.columns, BK=shape.step, num_warps=shape.warps, num_stages=shape.stages,
                enable_fp_fusion=False,  # or a logit could be rounded once in one launch and twice in the other
            )  # fmt: skip

    truth = torch.zeros(height, dtype=torch.float32, device=device)
    # of one size however few the rows, so that the sums over tiles are always taken in one order
    counts = torch.zeros(tiles, LAUNCH, dtype=torch.int32, device=device)
    sums = torch.zeros(tiles, LAUNCH, dtype=torch.float32, device=device)
    run("truth", truth, counts, truth)
    base = finite(truth)
    run("count", base, counts, sums)
    total = sums.sum(0, dtype=torch.float64)[:height]
    if (total == torch.inf).any():  # the truth lies very far below the highest logit: take that as the base
        run("peak", base, counts, sums)
        base = torch.where(total == torch.inf, finite(sums.amax(0)[:height]), base)
        run("count", base, counts, sums)
        total = sums.sum(0, dtype=torch.float64)[:height]
    greater, equal = (counts // PACK.value).sum(0)[:height], (counts % PACK.value).sum(0)[:height]
    return Tally(greater, equal, truth, base, total)


@triton.jit
def _tanh(x):  # type: ignore[no-untyped-def]
    """Tanh, by its series near 0, where the quotient would cancel."""
    square = x * x
    series = x * (1.0 - square * (1 / 3 - square * (2 / 15 - square * (17 / 315))))
    small = tl.exp(-2.0 * tl.abs(x))
    quotient = (1.0 - small) / (1.0 + small)
    return tl.where(tl.abs(x) < 0.15, series, tl.where(x < 0, -quotient, quotient))


@triton.jit  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    hidden, weight, target, bias, names, own, truth, base, counts, sums,
    height, vocab, d, stride, pitch, scale, softcap,
    MODE: tl.constexpr, BIAS: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, ROUND: tl.constexpr,  # noqa: N803
    WHOLE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """One tile. MODE "truth": the diagonal, to `sums` [T]; "count", "peak": to counts, sums [tiles, pitch]."""
    blocks = tl.cdiv(height, BM)
    n = tl.program_id(0) // blocks  # neighbours share a tile of weight, which is read from memory once
    m = tl.program_id(0) % blocks
    row = m * BM + tl.arange(0, BM)
    if MODE == "truth":
        own = m * BM + tl.arange(0, BN)
        column = tl.load(target + own, mask=own < height, other=0)
    else:
        column = n * BN + tl.arange(0, BN)
    live = column < vocab
    a_at = hidden + tl.minimum(row, height - 1).to(tl.int64)[:, None] * d
    b_at = weight + tl.minimum(column, vocab - 1).to(tl.int64)[None, :] * stride

    z = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, d, BK):
        k = start + tl.arange(0, BK)
        if WHOLE:
            a = tl.load(a_at + k[None, :])
            b = tl.load(b_at + k[:, None])
        else:
            a = tl.load(a_at + k[None, :], mask=k[None, :] < d, other=0.0)
            b = tl.load(b_at + k[:, None], mask=k[:, None] < d, other=0.0)
        z = tl.dot(a, b.to(a.dtype), z, input_precision="ieee")
    if BIAS:
        z += tl.load(bias + column, mask=live, other=0.0).to(tl.float32)[None, :]
    if SCALE:
        z *= scale
    if CAP:
        z = _tanh(z / softcap) * softcap
    if ROUND:  # to nearest, ties to even, on the bits: a cast there and back may be optimized away
        bits = z.to(tl.uint32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        z = tl.where(z == z, bits.to(tl.float32, bitcast=True), z)

    there = row < height
    if MODE == "truth":
        diagonal = tl.arange(0, BM)[:, None] == tl.arange(0, BN)[None, :]
        tl.store(sums + row, tl.sum(tl.where(diagonal, z, 0.0), axis=1), mask=there)
    elif MODE == "peak":
        peak = tl.max(tl.where(live[None, :], z, -float("inf")), axis=1)
        tl.store(sums + n * pitch + row, peak, mask=there)
    else:
        own_truth = tl.load(truth + row, mask=there, other=0.0)[:, None]
        own_base = tl.load(base + row, mask=there, other=0.0)[:, None]
        own_name = tl.load(own + row, mask=there, other=-1)[:, None]
        mine = tl.load(names + column, mask=live, other=-2)[None, :] == own_name
        count = tl.where(mine, 1, tl.where(z > own_truth, PACK, tl.where(z == own_truth, 1, 0)))
        tl.store(counts + n * pitch + row, tl.sum(tl.where(live[None, :], count, 0), axis=1), mask=there)
        total = tl.sum(tl.where(live[None, :], tl.exp(z - own_base), 0.0), axis=1)
        tl.store(sums + n * pitch + row, total, mask=there)


def _shared_memory(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0))
