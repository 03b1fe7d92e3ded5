"""Ranks by tiles that stay in cache: one product, one reduction, and the tile is overwritten by the next.

The logits of up to `rows` positions by `tile` tokens are computed into one small buffer, and one compiled pass
over it counts, takes the maximum and sums the exponentials. What makes the counts exact: every product has one
shape (short tiles are padded, then struck out), and the target's logit is read from such a product too, the
hidden states times their own targets' rows, so that a logit has one value however it was reached.
"""

import logging
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import torch
from torch._dynamo.exc import TorchDynamoException
from torch.nn.functional import pad

from rbp.ranking.problem import Problem
from rbp.ranking.tally import Tally

# Products on the CPU: the last columns that do not fill a vector kernel (8 to 48 wide) are summed in another order,
# so tiles are multiples of 96, and still are when up to 12 threads share one; few rows take other code paths too.
ROWS, TILE = 1024, 1152
STEP = 128  # a short block on the CPU is padded to a multiple of this

Reduced: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
Reduce: TypeAlias = Callable[[torch.Tensor, torch.Tensor], Reduced]

log = logging.getLogger("rbp.ranking")


def tally(problem: Problem, rows: int = ROWS, tile: int = TILE) -> Tally:
    """Count tile by tile. Memory: rows × tile logits, and two blocks of up to rows × d and tile × d values.

    rows, tile: the size of a block of logits; rows a multiple of 16, at most tile, a multiple of 96 and about
    1000 at least. Counts do not depend on them; the sum of exponentials does in its last bits, on `tile` alone.
    """
    height = problem.hidden.shape[0]
    reduce = _reduction(problem.dtype, problem.hidden.device, torch.get_num_threads()) if height else _plainly
    logits = torch.empty(rows * tile, dtype=problem.dtype, device=problem.hidden.device)
    parts = [_block(problem, start, rows, tile, logits, reduce) for start in range(0, max(height, 1), rows)]
    return Tally(*(torch.cat(field)[:height] for field in zip(*parts, strict=True)))


def _block(problem: Problem, start: int, rows: int, tile: int, buffer: torch.Tensor, reduce: Reduce) -> Tally:
    """The tally of the rows from `start` on, at most `rows` of them, and of the zeros that pad them."""
    hidden = problem.hidden[start : start + rows].to(problem.dtype)
    step = min(STEP, rows) if hidden.device.type == "cpu" else rows
    missing = -len(hidden) % step or step * (len(hidden) == 0)
    hidden = pad(hidden, (0, 0, 0, missing)) if missing else hidden
    logits = buffer[: len(hidden) * tile].view(len(hidden), tile)
    target = pad(problem.target[start : start + rows], (0, missing))
    truth = _product(problem, hidden, problem.weight[target], target, logits).diagonal().clone()

    parts = []
    for first in range(0, problem.weight.shape[0], tile):
        columns = slice(first, first + tile)
        _product(problem, hidden, problem.weight[columns], columns, logits)
        padding = first + tile - problem.weight.shape[0]
        if padding > 0:
            logits[:, -padding:] = -torch.inf
        parts.append(reduce(logits, truth))
    greater, equal, peaks, totals = (torch.stack(field) for field in zip(*parts, strict=True))
    equal = equal.sum(0) - (truth == -torch.inf) * max(padding, 0)  # the columns struck out tie with −inf
    peak = peaks.amax(0)
    scaled = totals.double() * (_base(peaks).double() - _base(peak).double()).exp()
    total = torch.zeros_like(peak, dtype=torch.float64)
    for part in scaled:  # in this order whatever the shape, as a sum over a dimension does not promise
        total += part
    return Tally(greater.sum(0), equal, truth, peak, total)


def _product(
    problem: Problem,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    columns: torch.Tensor | slice,
    out: torch.Tensor,
) -> torch.Tensor:
    """The logits of hidden against some rows of weight, padded by zeros to the width of `out`, written there."""
    missing = out.shape[1] - weight.shape[0]
    weight = pad(weight, (0, 0, 0, missing)) if missing else weight
    torch.mm(hidden, weight.to(problem.dtype).T, out=out)
    bias = None if problem.bias is None else pad(problem.bias[columns].to(problem.dtype), (0, missing))
    return problem.finish(out, bias)


def _base(peak: torch.Tensor) -> torch.Tensor:
    """What exponents are taken against: the highest logit, unless it is infinite."""
    return torch.where(peak.isinf(), 0.0, peak)


def _reduce(logits: torch.Tensor, truth: torch.Tensor) -> Reduced:
    """Counts greater and equal, the maximum, Σ exp(z − maximum), each per row; compiled into one pass."""
    column, peak = truth[:, None], logits.amax(1)
    total = (logits - _base(peak)[:, None]).exp().sum(1)
    # counted in the logits' dtype, exact far beyond any tile, so that one vector width serves the whole pass
    above, same = ((logits > column).to(logits.dtype), (logits == column).to(logits.dtype))
    return above.sum(1), same.sum(1), peak, total


def _plainly(logits: torch.Tensor, truth: torch.Tensor) -> Reduced:
    """What `_reduce` does, without a compiler: the tile is used up, to spare memory."""
    column, peak = truth[:, None], logits.amax(1)
    above, same = (logits > column).sum(1), (logits == column).sum(1)
    return above, same, peak, logits.sub_(_base(peak)[:, None]).exp_().sum(1)


@cache
def _reduction(dtype: torch.dtype, device: torch.device, threads: int) -> Reduce:
    """`_reduce`, compiled for all shapes, or, where there is no compiler, `_plainly`."""
    compiled: Reduce = torch.compile(_reduce, dynamic=True, fullgraph=True, isolate_recompiles=True)
    try:  # a full tile comes first: the compiler shares work out among threads by the size it sees
        compiled(torch.zeros(ROWS, TILE, dtype=dtype, device=device), torch.zeros(ROWS, dtype=dtype, device=device))
    except (TorchDynamoException, RuntimeError) as error:
        _say_once(str(error).strip().splitlines()[0])
        return _plainly
    return compiled


@cache
def _say_once(reason: str) -> None:
    what = "no compiled reduction, so ranking runs on plain tiles: the same counts, slower"
    log.warning("%s (%s). Install a C++ compiler such as g++.", what, reason)
