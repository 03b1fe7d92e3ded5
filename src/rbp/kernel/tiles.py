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
        "ROUND": problem.rounding is not None, "TILE": tile, "num_warps": 4, "enable_fp_fusion": False,
    }  # fmt: skip

    def count(rows: slice, columns: torch.Tensor, at: int, start: int, mode: str) -> None:
        multiply(hidden[rows], columns, logits)
        state = problem.target[rows], *(field[rows] for field in result), peaks[rows]
        given = logits, problem.bias, problem.names, *state, width, at, start, problem.scale, problem.softcap or 1.0
        _count[(len(state[0]),)](*given, MODE=mode, **options)

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


@triton.jit(do_not_specialize=["width", "at", "start"])  # type: ignore[untyped-decorator]
def _count(  # type: ignore[no-untyped-def]
    logits, bias, names, target, greater, equal, truth, base, total, top, peaks,
    width, at, start, scale, softcap,
    MODE: tl.constexpr, BIAS: tl.constexpr, SCALE: tl.constexpr, CAP: tl.constexpr, ROUND: tl.constexpr,  # noqa: N803
    TILE: tl.constexpr,  # noqa: N803
):  # fmt: skip
    """Read a row of logits [TILE, TILE]. MODE "truth": its diagonal, to begin; "count": columns from `start` on."""
    row = tl.program_id(0)
    own = tl.load(target + row)
    if MODE == "truth":
        offset = tl.load(bias + own).to(tl.float32) if BIAS else 0.0
        z = tl.load(logits + row * TILE + row)
        tl.store(truth + row, finished(z, offset, scale, softcap, BIAS, SCALE, CAP, ROUND))
        tl.store(greater + row, 0)
        tl.store(equal + row, 0)
        tl.store(total + row, 0.0)
        tl.store(top + row, 0)
        tl.store(peaks + row, -float("inf"))
    else:
        place = tl.arange(0, TILE)
        column = at + place
        new = (column >= start) & (column < width)
        offset = tl.load(bias + column, mask=new, other=0.0).to(tl.float32) if BIAS else 0.0
        z = finished(tl.load(logits + row * TILE + place), offset, scale, softcap, BIAS, SCALE, CAP, ROUND)
        own_logit = tl.load(truth + row)
        mine = tl.load(names + column, mask=new, other=-1) == tl.load(names + own)
        z = tl.where(mine, own_logit, tl.where(new, z, -float("inf")))
        tl.store(greater + row, tl.load(greater + row) + tl.sum((z > own_logit).to(tl.int32)))
        tl.store(equal + row, tl.load(equal + row) + tl.sum(((z == own_logit) & new).to(tl.int32)))
        before, here = tl.load(peaks + row), tl.max(z, axis=0)
        first = tl.min(tl.where(z == here, column, NONE), axis=0)
        tl.store(top + row, tl.where(here > before, first, tl.load(top + row)))
        peak = tl.maximum(before, here)
        tl.store(peaks + row, peak)
        row_base = finite(peak)
        tl.store(base + row, row_base)
        shrunk = tl.load(total + row) * tl.exp(before.to(tl.float64) - row_base.to(tl.float64))
        tl.store(total + row, shrunk + tl.sum(tl.exp(z - row_base), axis=0).to(tl.float64))
