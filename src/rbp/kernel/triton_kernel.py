"""Ranks by one fused GPU kernel: a tiled product, counted and summed before it leaves the registers.

Every program computes one tile of logits, BM positions by BN tokens, with a float32 accumulator, and writes two
numbers per position: both counts, packed, and Σ exp(z − base). The target's logit comes from the same tile
computation in a first launch, whose columns are the rows' own targets, and stands for all columns with the target's
row of weight, as in `blocked`: a target ties with itself and its equals, whatever a product does at the edges of a
tile. Under TRITON_INTERPRET=1, set before triton is imported, it runs on the CPU, for tests.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch.nn.functional import pad

from rbp.errors import ParameterError
from rbp.kernel.problem import Problem, Tally, finite

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
    """Choose the tile for products in `dtype` over d, on a device with `shared` bytes of shared memory per block."""
    if dtype == torch.float32:  # IEEE products run on the plain units
        return Shape(64, 256, 16, warps=4, stages=2)
    if d >= 2048 and shared >= 3 * (128 + 256) * 64 * 2:  # the widest tile whose accumulator fits the registers
        return Shape(128, 256, 64, warps=8, stages=3)
    return Shape(128, 128, 64, warps=4, stages=3)  # two fit on a multiprocessor: one multiplies, one counts


def tally(problem: Problem, shape: Shape | None = None) -> Tally:
    """Count by the kernel, LAUNCH rows at a time. Memory: 16 bytes × LAUNCH × V / columns of a tile.

    A d that is no whole number of steps is padded by zeros, which change no sum (and take a copy of the weight): with
    masks in their stead a thread needs more registers than there are. Raises ParameterError for float64, and where
    there is no GPU and no interpreter.
    """
    device = problem.hidden.device
    if device.type != "cuda" and not INTERPRETED:
        raise ParameterError(f"the triton kernel does not run on {device}", "backend", 'Take backend="blocked".')
    if problem.dtype == torch.float64:
        raise ParameterError("the triton kernel sums in float32", "backend", 'Take backend="blocked" for float64.')
    return Work(problem, shape or shape_for(_dtype(problem), problem.hidden.shape[1], shared_memory(device))).tally()


class Work:
    """The kernel's launches for one problem; what they share is made once."""

    def __init__(self, problem: Problem, shape: Shape) -> None:
        dtype = _dtype(problem)
        if INTERPRETED and dtype == torch.bfloat16:
            dtype = torch.float32  # triton's interpreter multiplies bfloat16 as the integers that encode it
        missing = -problem.hidden.shape[1] % shape.step
        self.problem, self.shape = problem, shape
        self.hidden = _wide(problem.hidden.to(dtype), missing).contiguous()
        self.weight = _wide(problem.weight, missing)
        if self.weight.stride(1) != 1:
            self.weight = self.weight.contiguous()
        self.target_names = problem.names.of[problem.target]
        self.truth = torch.zeros(len(self.hidden), dtype=torch.float32, device=self.hidden.device)
        # of one size however few the rows, so that the sums over tiles are always taken in one order
        each = triton.cdiv(len(self.weight), shape.columns), LAUNCH
        self.counts = torch.empty(each, dtype=torch.int32, device=self.hidden.device)
        self.sums = torch.empty(each, dtype=torch.float32, device=self.hidden.device)

    def tally(self) -> Tally:
        """Tally all rows."""
        height = len(self.hidden)
        if not height:
            return Tally(*torch.zeros(5, 0, device=self.hidden.device))
        self._run("truth", slice(0, height), self.truth)
        starts, base = range(0, height, LAUNCH), finite(self.truth)
        parts = [self._count(slice(start, start + LAUNCH), base) for start in starts]
        far = torch.cat([total for *_, total in parts]) == torch.inf
        again = pad(far, (0, -height % LAUNCH)).view(-1, LAUNCH).any(1).tolist()  # one look for all launches
        for i, start in enumerate(starts):
            if again[i]:  # a truth lies very far below the highest logit: take that as the base
                rows = slice(start, start + LAUNCH)
                self._run("peak", rows, base)
                peak = finite(self.sums.amax(0)[: len(base[rows])])
                base[rows] = torch.where(far[rows], peak, base[rows])
                parts[i] = self._count(rows, base)
        greater, equal, total = (torch.cat(field) for field in zip(*parts, strict=True))
        struck_out = -len(self.weight) % self.shape.columns
        return Tally(greater, equal - struck_out * (self.truth == -torch.inf), self.truth, base, total)

    def _count(self, rows: slice, base: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return greater, equal and total of at most LAUNCH rows."""
        self._run("count", rows, base)
        greater, equal = (self.counts // PACK.value).sum(0), (self.counts % PACK.value).sum(0)
        height = len(base[rows])
        return greater[:height], equal[:height], self.sums.sum(0, dtype=torch.float64)[:height]

    def _run(self, mode: str, rows: slice, base: torch.Tensor) -> None:
        given, options = self.arguments(mode, rows, base)
        blocks = triton.cdiv(len(given[0]), self.shape.rows)
        _kernel[(blocks * (1 if mode == "truth" else len(self.counts)),)](*given, **options)

    def arguments(self, mode: str, rows: slice, base: torch.Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what the kernel is given for some rows, and what it is compiled for."""
        problem, shape = self.problem, self.shape
        hidden, sums = self.hidden[rows], self.truth if mode == "truth" else self.sums
        given = (
            hidden, self.weight, problem.target[rows], problem.bias, problem.names.of, self.target_names[rows],
            self.truth[rows], base[rows], self.counts, sums,
            len(hidden), len(self.weight), hidden.shape[1], self.weight.stride(0), LAUNCH,
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


def _dtype(problem: Problem) -> torch.dtype:
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


# the same code for any number of rows and tokens: less to compile, and what is tested is what runs
@triton.jit(do_not_specialize=["height", "vocab"])  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    hidden, weight, target, bias, names, target_names, truth, base, counts, sums,
    height, vocab, d, stride, pitch, scale, softcap,
    MODE: tl.constexpr, BIAS: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, ROUND: tl.constexpr,  # noqa: N803
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Compute a tile. MODE "truth": the diagonal, to `sums` [T]; "count", "peak": to counts, sums [tiles, pitch]."""
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
    if BIAS:
        z += tl.load(bias + column, mask=column < vocab, other=0.0).to(tl.float32)[None, :]
    if SCALE:
        z *= scale
    if CAP:
        z = _tanh(z / softcap) * softcap
    if ROUND:  # to nearest, ties to even, on the bits: a cast there and back may be optimized away
        bits = z.to(tl.uint32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        z = tl.where(z == z, bits.to(tl.float32, bitcast=True), z)

    valid = row < height
    if MODE == "truth":
        diagonal = tl.arange(0, BM)[:, None] == tl.arange(0, BN)[None, :]
        tl.store(sums + row, tl.sum(tl.where(diagonal, z, 0.0), axis=1), mask=valid)
    else:  # columns beyond the last are −inf: they exceed nothing, and equal what is −inf itself
        z = tl.where((column < vocab)[None, :], z, -float("inf"))
    if MODE == "peak":
        tl.store(sums + n * pitch + row, tl.max(z, axis=1), mask=valid)
    if MODE == "count":  # the sum first: so all of it fits the registers
        row_base = tl.load(base + row, mask=valid, other=0.0)[:, None]
        tl.store(sums + n * pitch + row, tl.sum(tl.exp(z - row_base), axis=1), mask=valid)
        row_truth = tl.load(truth + row, mask=valid, other=0.0)[:, None]
        row_name = tl.load(target_names + row, mask=valid, other=-1)[:, None]
        mine = tl.load(names + column, mask=column < vocab, other=-2)[None, :] == row_name
        count = tl.where(mine, 1, tl.where(z > row_truth, PACK, tl.where(z == row_truth, 1, 0)))
        tl.store(counts + n * pitch + row, tl.sum(count, axis=1), mask=valid)


def shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory that a block may take on a GPU; 0 elsewhere."""
    if device.type != "cuda":
        return 0
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0))
