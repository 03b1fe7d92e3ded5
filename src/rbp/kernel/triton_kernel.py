"""Ranks by one fused GPU kernel: a tiled product, counted and summed before it leaves the registers.

Every program computes one tile of logits, BM positions by BN tokens, with a float32 accumulator, and writes four
numbers per position: both counts, packed, the highest logit, its token, and Σ exp(z − highest). A second kernel merges
the tiles. The target's logit comes from the same tile computation in a first launch, whose columns are the rows' own
targets, and stands for all columns with the target's row of weight, as in `blocked`: a target ties with itself and its
equals, whatever a product does at the edges of a tile. Under TRITON_INTERPRET=1, set before triton is imported, it runs
on the CPU, for tests.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch.nn.functional import pad

from rbp.errors import ParameterError
from rbp.kernel.problem import Problem, Tally

LAUNCH = 4096  # rows of one launch: their hidden states stay in the L2 cache, their tiles' numbers below 70 MB
PACK = tl.constexpr(65536)  # a tile's two counts travel as greater × PACK + equal
NONE = tl.constexpr(2**31 - 1)  # above every token
MERGED = 16, 64  # rows of a program that merges, and tiles that it reads at once

INTERPRETED: bool = triton.knobs.runtime.interpret


class Shape(NamedTuple):
    """One tile: rows, columns (at least as many), steps along d; warps and pipeline stages."""

    rows: int
    columns: int
    step: int
    warps: int
    stages: int


def shape_for(dtype: torch.dtype, d: int, shared: int) -> Shape:
    """Choose the tile for products in `dtype` over d, on a device with `shared` bytes of shared memory per block."""
    if dtype == torch.float32:  # IEEE products run on the plain units
        return Shape(64, 256, 16, warps=4, stages=2)
    if d >= 2048 and shared >= 3 * (128 + 256) * 64 * 2:  # the widest tile whose accumulator fits the registers
        return Shape(128, 256, 64, warps=8, stages=3)
    return Shape(128, 128, 64, warps=4, stages=3)  # two fit on a multiprocessor: one multiplies, one counts


def tally(problem: Problem) -> Tally:
    """Count by the kernel, LAUNCH rows at a time. Memory: 16 bytes × LAUNCH × V / columns of a tile. Waits for nothing.

    A d that is no whole number of steps is padded by zeros, which change no sum (and take a copy of the weight): with
    masks in their stead a thread needs more registers than there are. Raises ParameterError for float64, and where
    there is no GPU and no interpreter.
    """
    check_runs(problem)
    shared = shared_memory(problem.hidden.device)
    return Work(problem, shape_for(product_dtype(problem), problem.hidden.shape[1], shared)).tally()


def check_runs(problem: Problem) -> None:
    """Raise ParameterError where no kernel can count."""
    device = problem.hidden.device
    if device.type != "cuda" and not INTERPRETED:
        raise ParameterError(f"no kernel by triton runs on {device}", "backend", 'Take backend="blocked".')
    if problem.dtype == torch.float64:
        raise ParameterError("kernels by triton sum in float32", "backend", 'Take backend="blocked" for float64.')


class Work:
    """The kernel's launches for one problem; what they share is made once."""

    def __init__(self, problem: Problem, shape: Shape) -> None:
        dtype = product_dtype(problem)
        if INTERPRETED and dtype == torch.bfloat16:
            dtype = torch.float32  # triton's interpreter multiplies bfloat16 as the integers that encode it
        missing = -problem.hidden.shape[1] % shape.step
        self.problem, self.shape = problem, shape
        self.hidden = _wide(problem.hidden.to(dtype), missing).contiguous()
        self.weight = _wide(problem.weight, missing)
        if self.weight.stride(1) != 1:
            self.weight = self.weight.contiguous()
        self.result = empty_tally(problem)
        self.tiles = triton.cdiv(len(self.weight), shape.columns)
        # of one size however few the rows, so that the sums over tiles are always taken in one order
        kinds = torch.int32, torch.float32, torch.float32, torch.int32  # counts, sums, peaks, tops
        self.parts = [torch.empty(self.tiles, LAUNCH, dtype=kind, device=self.hidden.device) for kind in kinds]

    def tally(self) -> Tally:
        """Tally all rows."""
        height = len(self.hidden)
        if height:
            self._run("truth", slice(0, height))
        for start in range(0, height, LAUNCH):
            rows = slice(start, start + LAUNCH)
            self._run("count", rows)
            merge, options = self.merged(rows)
            _merge[(triton.cdiv(len(self.hidden[rows]), MERGED[0]),)](*merge, **options)
        return self.result

    def _run(self, mode: str, rows: slice) -> None:
        given, options = self.arguments(mode, rows)
        blocks = triton.cdiv(len(given[0]), self.shape.rows)
        _kernel[(blocks * (1 if mode == "truth" else self.tiles),)](*given, **options)

    def merged(self, rows: slice) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what the merging kernel is given for some rows, and what it is compiled for."""
        result = self.result
        fields = result.greater, result.equal, result.base, result.total, result.top
        given = *self.parts, *(field[rows] for field in fields), len(result.truth[rows]), self.tiles, LAUNCH
        return given, {"ROWS": MERGED[0], "TILES": MERGED[1], "num_warps": 4}

    def arguments(self, mode: str, rows: slice) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what the kernel is given for some rows, and what it is compiled for."""
        problem, shape = self.problem, self.shape
        hidden = self.hidden[rows]
        given = (
            hidden, self.weight, problem.target[rows], problem.bias, problem.names, self.result.truth[rows],
            *self.parts, len(hidden), len(self.weight), hidden.shape[1], self.weight.stride(0), LAUNCH,
            problem.scale, problem.softcap or 1.0,
        )  # fmt: skip
        options = {
            "MODE": mode, "BIAS": problem.bias is not None, "SCALE": problem.scale != 1.0,
            "CAP": problem.softcap is not None, "ROUND": problem.rounding is not None,
            "BM": shape.rows, "BN": shape.columns, "BK": shape.step,
            "num_warps": shape.warps, "num_stages": shape.stages,
            "enable_fp_fusion": False,  # or a logit could be rounded once in one launch and twice in the other
        }  # fmt: skip
        return given, options


def empty_tally(problem: Problem) -> Tally:
    """Make a tally of the rows of a problem that a kernel is yet to fill."""

    def empty(dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(len(problem.hidden), dtype=dtype, device=problem.hidden.device)

    whole, short, double = torch.int64, torch.float32, torch.float64
    return Tally(*(empty(dtype) for dtype in (whole, whole, short, short, double, whole)))


def product_dtype(problem: Problem) -> torch.dtype:
    """Return the dtype in which hidden states and weight are multiplied."""
    return torch.promote_types(problem.hidden.dtype, problem.weight.dtype)


def _wide(matrix: torch.Tensor, missing: int) -> torch.Tensor:
    return pad(matrix, (0, missing)) if missing else matrix


@triton.jit
def _tanh(x):  # type: ignore[no-untyped-def]
    """Compute tanh, by its series near 0, where the quotient would cancel."""
    square = x * x
    series = x * (1.0 - square * (1 / 3 - square * (2 / 15 - square * (17 / 315))))
    small = tl.exp(-2.0 * tl.abs(x))
    quotient = (1.0 - small) / (1.0 + small)
    return tl.where(tl.abs(x) < 0.15, series, tl.where(x < 0, -quotient, quotient))


@triton.jit  # type: ignore[untyped-decorator]
def finished(  # type: ignore[no-untyped-def]
    z, offset, scale, softcap,
    BIAS: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, ROUND: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Turn bare products into logits."""
    if BIAS:
        z += offset
    if SCALE:
        z *= scale
    if CAP:
        z = _tanh(z / softcap) * softcap
    if ROUND:  # to nearest, ties to even, on the bits: a cast there and back may be optimized away
        bits = z.to(tl.uint32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        z = tl.where(z == z, bits.to(tl.float32, bitcast=True), z)
    return z


@triton.jit
def finite(x):  # type: ignore[no-untyped-def]
    """Replace infinities by 0: what exponents can be taken against."""
    return tl.where(tl.abs(x) == float("inf"), 0.0, x)


# the same code for any number of rows and tokens: less to compile, and what is tested is what runs
@triton.jit(do_not_specialize=["height", "vocab"])  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    hidden, weight, target, bias, names, truth, counts, sums, peaks, tops,
    height, vocab, d, stride, pitch, scale, softcap,
    MODE: tl.constexpr, BIAS: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, ROUND: tl.constexpr,  # noqa: N803
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Compute a tile. MODE "truth": its diagonal, to `truth` [T]; "count": counts … tops [tiles, pitch]."""
    blocks = tl.cdiv(height, BM)
    n = tl.program_id(0) // blocks  # neighbours share a tile of weight, which is read from memory once
    m = tl.program_id(0) % blocks
    row = m * BM + tl.arange(0, BM)
    if MODE == "truth":
        diagonal_row = m * BM + tl.arange(0, BN)
        column = tl.load(target + diagonal_row, mask=diagonal_row < height, other=0)
    else:
        column = n * BN + tl.arange(0, BN)
    a_at = hidden + tl.minimum(row, height - 1).to(tl.int64)[:, None] * d
    b_at = weight + tl.minimum(column, vocab - 1).to(tl.int64)[None, :] * stride

    z = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, d, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_at + k[None, :])
        b = tl.load(b_at + k[:, None])
        z = tl.dot(a, b.to(a.dtype), z, input_precision="ieee")
    offset = tl.load(bias + column, mask=column < vocab, other=0.0).to(tl.float32)[None, :] if BIAS else 0.0
    z = finished(z, offset, scale, softcap, BIAS, SCALE, CAP, ROUND)

    valid = row < height
    if MODE == "truth":
        diagonal = tl.arange(0, BM)[:, None] == tl.arange(0, BN)[None, :]
        tl.store(truth + row, tl.sum(tl.where(diagonal, z, 0.0), axis=1), mask=valid)
    else:
        at = n * pitch + row
        own = tl.load(names + tl.load(target + row, mask=valid, other=0))[:, None]
        row_truth = tl.load(truth + row, mask=valid, other=0.0)[:, None]
        mine = tl.load(names + column, mask=column < vocab, other=-1)[None, :] == own
        z = tl.where(mine, row_truth, tl.where((column < vocab)[None, :], z, -float("inf")))
        tied = (z == row_truth) & (column < vocab)[None, :]
        tl.store(counts + at, tl.sum(tl.where(z > row_truth, PACK, tl.where(tied, 1, 0)), axis=1), mask=valid)
        peak = tl.max(z, axis=1)
        tl.store(peaks + at, peak, mask=valid)
        tl.store(tops + at, tl.min(tl.where(z == peak[:, None], column[None, :], NONE), axis=1), mask=valid)
        tl.store(sums + at, tl.sum(tl.exp(z - finite(peak)[:, None]), axis=1), mask=valid)


@triton.jit(do_not_specialize=["height", "tiles"])  # type: ignore[untyped-decorator]
def _merge(  # type: ignore[no-untyped-def]
    counts, sums, peaks, tops, greater, equal, base, total, top, height, tiles, pitch,
    ROWS: tl.constexpr, TILES: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Merge what the tiles found, [tiles, pitch], for ROWS rows; TILES at once."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    highest = tl.full((ROWS,), -float("inf"), tl.float32)
    for start in range(0, tiles, TILES):
        tile = start + tl.arange(0, TILES)
        there = (tile < tiles)[:, None] & (row < height)[None, :]
        at = tile[:, None] * pitch + row[None, :]
        highest = tl.maximum(highest, tl.max(tl.load(peaks + at, mask=there, other=-float("inf")), axis=0))
    row_base = finite(highest)
    above, same = tl.zeros((ROWS,), tl.int64), tl.zeros((ROWS,), tl.int64)
    mass, best = tl.zeros((ROWS,), tl.float64), tl.full((ROWS,), NONE, tl.int32)
    for start in range(0, tiles, TILES):
        tile = start + tl.arange(0, TILES)
        there = (tile < tiles)[:, None] & (row < height)[None, :]
        at = tile[:, None] * pitch + row[None, :]
        count = tl.load(counts + at, mask=there, other=0)
        above += tl.sum((count // PACK).to(tl.int64), axis=0)
        same += tl.sum((count % PACK).to(tl.int64), axis=0)
        peak = tl.load(peaks + at, mask=there, other=-float("inf"))
        part = tl.load(sums + at, mask=there, other=0.0).to(tl.float64)
        mass += tl.sum(part * tl.exp(peak.to(tl.float64) - row_base.to(tl.float64)[None, :]), axis=0)
        token = tl.load(tops + at, mask=there, other=NONE)
        best = tl.minimum(best, tl.min(tl.where(peak == highest[None, :], token, NONE), axis=0))
    valid = row < height
    tl.store(greater + row, above, mask=valid)
    tl.store(equal + row, same, mask=valid)
    tl.store(base + row, row_base, mask=valid)
    tl.store(total + row, mass, mask=valid)
    tl.store(top + row, best.to(tl.int64), mask=valid)


def shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory that a block may take on a GPU; 0 elsewhere."""
    if device.type != "cuda":
        return 0
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0))
