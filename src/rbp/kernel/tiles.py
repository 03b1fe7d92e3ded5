"""Ranks by the vendor's products on a GPU: tiles of logits, each read once by a small kernel.

cuBLAS multiplies float32 twice as fast as a kernel of ours does. Every product has one shape, TILE rows by TILE
columns, one stride and one dtype, however many rows there are: a vendor chooses its algorithm by these. Short blocks of
rows are padded; the last tile of columns starts early enough to be whole, and skips those that were counted. The
target's logit comes from a product of that shape too, and stands for every column with the target's row of weight, as
in `blocked`: no count rests on two products that give the same bits.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch.nn.functional import pad

from rbp.kernel.problem import Problem, Tally
from rbp.kernel.triton_kernel import NONE, check_runs, empty_tally, finished, finite, product_dtype

TILE = 2048  # the target's own tile costs 4% of 50,000 columns; its logits, 17 MB, stay in the L2 cache
BLOCK = 4096  # logits that a program reads at once


def tally(problem: Problem, tile: int = TILE) -> Tally:
    """Count tile by tile. Memory: tile² logits, and rows × d values for the targets' rows of weight. Waits for nothing.

    tile: a power of two. Raises ParameterError for float64, and where there is no GPU and no interpreter.
    """
    check_runs(problem)
    result, dtype = empty_tally(problem), product_dtype(problem)
    height, width = len(problem.hidden), len(problem.weight)
    missing = -height % tile
    hidden, weight = _padded(problem.hidden.to(dtype), missing), _padded(problem.weight.to(dtype), max(0, tile - width))
    own = _padded(weight[problem.target], missing)
    logits = torch.empty(tile, tile, dtype=torch.float32, device=hidden.device)
    peaks = torch.empty_like(result.base)
    options: dict[str, Any] = {
        "BIAS": problem.bias is not None, "SCALE": problem.scale != 1.0, "CAP": problem.softcap is not None,
        "ROUND": problem.rounding is not None, "ROWS": max(1, BLOCK // tile), "TILE": tile,
        "num_warps": 8, "enable_fp_fusion": False,
    }  # fmt: skip

    def count(rows: slice, columns: torch.Tensor, at: int, start: int, mode: str) -> None:
        multiply(hidden[rows], columns, logits)
        state = problem.target[rows], *(field[rows] for field in result), peaks[rows]
        sizes = len(state[0]), width, at, start
        given = logits, problem.bias, problem.names, *state, *sizes, problem.scale, problem.softcap or 1.0
        _count[(triton.cdiv(sizes[0], options["ROWS"]),)](*given, MODE=mode, **options)

    for rows in (slice(first, first + tile) for first in range(0, height, tile)):
        count(rows, own[rows], 0, 0, "truth")
        for start in range(0, width, tile):
            at = max(0, min(start, width - tile))
            count(rows, weight[at : at + tile], at, start, "count")
    return result


def multiply(rows: torch.Tensor, columns: torch.Tensor, out: torch.Tensor) -> None:
    """Compute rows · columnsᵀ into `out`, in float32."""
    if rows.dtype == torch.float32:
        torch.mm(rows, columns.T, out=out)
    elif rows.is_cuda:
        torch.mm(rows, columns.T, out_dtype=torch.float32, out=out)
    else:  # for tests: a CPU has no such product
        torch.mm(rows.float(), columns.float().T, out=out)


def _padded(matrix: torch.Tensor, missing: int) -> torch.Tensor:
    """Return the matrix with rows of zeros below, one row after the other in memory."""
    return pad(matrix, (0, 0, 0, missing)) if missing else matrix.contiguous()


@triton.jit(do_not_specialize=["height", "width", "at", "start"])  # type: ignore[untyped-decorator]
def _count(  # type: ignore[no-untyped-def]
    logits, bias, names, target, greater, equal, truth, base, total, top, peaks,
    height, width, at, start, scale, softcap,
    MODE: tl.constexpr, BIAS: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, ROUND: tl.constexpr,  # noqa: N803
    ROWS: tl.constexpr, TILE: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Read ROWS rows of logits [TILE, TILE]. MODE "truth": its diagonal, to begin; "count": columns from `start` on."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = row < height
    own = tl.load(target + row, mask=there, other=0)
    if MODE == "truth":
        offset = tl.load(bias + own, mask=there, other=0.0).to(tl.float32) if BIAS else 0.0
        z = tl.load(logits + row * TILE + row, mask=there, other=0.0)
        tl.store(truth + row, finished(z, offset, scale, softcap, BIAS, SCALE, CAP, ROUND), mask=there)
        nothing = tl.zeros((ROWS,), tl.int64)
        tl.store(greater + row, nothing, mask=there)
        tl.store(equal + row, nothing, mask=there)
        tl.store(total + row, nothing.to(tl.float64), mask=there)
        tl.store(top + row, nothing, mask=there)
        tl.store(peaks + row, tl.full((ROWS,), -float("inf"), tl.float32), mask=there)
    else:
        place = tl.arange(0, TILE)
        column = at + place
        new = (column >= start) & (column < width)
        offset = tl.load(bias + column, mask=new, other=0.0).to(tl.float32)[None, :] if BIAS else 0.0
        z = tl.load(logits + row[:, None] * TILE + place[None, :], mask=there[:, None], other=0.0)
        z = finished(z, offset, scale, softcap, BIAS, SCALE, CAP, ROUND)
        own_logit = tl.load(truth + row, mask=there, other=0.0)[:, None]
        mine = tl.load(names + column, mask=new, other=-1)[None, :] == tl.load(names + own)[:, None]
        z = tl.where(mine, own_logit, tl.where(new[None, :], z, -float("inf")))
        above = tl.sum((z > own_logit).to(tl.int32), axis=1)
        same = tl.sum(((z == own_logit) & new[None, :]).to(tl.int32), axis=1)
        tl.store(greater + row, tl.load(greater + row, mask=there, other=0) + above, mask=there)
        tl.store(equal + row, tl.load(equal + row, mask=there, other=0) + same, mask=there)
        before, here = tl.load(peaks + row, mask=there, other=0.0), tl.max(z, axis=1)
        first = tl.min(tl.where(z == here[:, None], column[None, :], NONE), axis=1)
        tl.store(top + row, tl.where(here > before, first, tl.load(top + row, mask=there, other=0)), mask=there)
        peak = tl.maximum(before, here)
        tl.store(peaks + row, peak, mask=there)
        row_base = finite(peak)
        tl.store(base + row, row_base, mask=there)
        shrunk = tl.exp(before.to(tl.float64) - row_base.to(tl.float64)) * tl.load(total + row, mask=there, other=0.0)
        tl.store(total + row, shrunk + tl.sum(tl.exp(z - row_base[:, None]), axis=1).to(tl.float64), mask=there)
