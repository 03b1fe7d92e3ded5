"""Ranks by tiles that stay in cache: one product, one reduction, and the tile is overwritten by the next.

The logits of up to `rows` positions by `tile` tokens are computed into one small buffer, and one compiled pass
over it counts and sums the exponentials. What makes the counts exact: every product has one shape (short tiles
are padded, then struck out), and the target's logit is read from such a product too, the hidden states times
their own targets' rows, so that a logit has one value however it was reached.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import torch
from torch._dynamo.exc import TorchDynamoException
from torch.nn.functional import pad

from rbp.ranking.problem import Problem
from rbp.ranking.tally import Tally, finite

# Products on the CPU: the last columns that do not fill a vector kernel (8 to 48 wide) are summed in another order,
# so tiles are multiples of 96, and still are when up to 12 threads share one; few rows take other code paths too.
ROWS, TILE = 1024, 1152
STEP = 128  # a short block on the CPU is padded to a multiple of this
PACK = 4096  # a tile's two counts travel as greater × PACK + equal, exact in float32 for tiles below PACK

Reduced: TypeAlias = tuple[torch.Tensor, torch.Tensor]
Reduce: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Reduced]

log = logging.getLogger("rbp.ranking")


def tally(problem: Problem, rows: int = ROWS, tile: int = TILE) -> Tally:
    """Count tile by tile. Memory: rows × tile logits, and two blocks of up to rows × d and tile × d values.

    rows, tile: the size of a block of logits; rows a multiple of 16, at most tile, a multiple of 96 from about
    1000 to 4032. Counts do not depend on them; the sum of exponentials does in its last bits, on `tile` alone.
    """
    height, device = problem.hidden.shape[0], problem.hidden.device
    if not height:
        return Tally(*torch.zeros(5, 0, dtype=problem.dtype, device=device))
    reduce = _reduction(problem.dtype, device, torch.get_num_threads())
    buffer = torch.empty(rows * tile, dtype=problem.dtype, device=device)
    step = min(STEP, rows) if device.type == "cpu" else rows
    parts = []
    for start in range(0, height, rows):
        hidden, target = problem.hidden[start : start + rows], problem.target[start : start + rows]
        missing = -len(hidden) % step
        hidden = _padded(hidden.to(problem.dtype), missing)
        logits = buffer[: len(hidden) * tile].view(len(hidden), tile)
        parts.append(_Block(problem, hidden, pad(target, (0, missing)), logits).tally(reduce))
    return Tally(*(torch.cat(field)[:height] for field in zip(*parts, strict=True)))


@dataclass(frozen=True)
class _Block:
    """Some rows, padded by zeros: hidden [R, d] in the dtype of the sums, target [R]; logits [R, C] is scratch."""

    problem: Problem
    hidden: torch.Tensor
    target: torch.Tensor
    logits: torch.Tensor

    def tally(self, reduce: Reduce) -> Tally:
        """The tally of these rows, those that pad them included."""
        truth = self.product(self.target).diagonal().clone()
        base = finite(truth)
        greater, equal, total = self.sweep(truth, base, reduce)
        if (total == torch.inf).any():  # the truth lies very far below the highest logit: take that as the base
            peak = torch.stack([tile.amax(1) for tile in self.tiles()]).amax(0)
            base = torch.where(total == torch.inf, finite(peak), base)
            greater, equal, total = self.sweep(truth, base, reduce)
        struck_out = -self.problem.weight.shape[0] % self.logits.shape[1]
        return Tally(greater, equal - struck_out * (truth == -torch.inf), truth, base, total)

    def sweep(
        self, truth: torch.Tensor, base: torch.Tensor, reduce: Reduce
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Greater, equal and Σ exp(z − base) over all tiles."""
        counts, parts = zip(*(reduce(tile, truth, base) for tile in self.tiles()), strict=True)
        packed = torch.stack(counts).long()
        total = torch.zeros_like(truth, dtype=torch.float64)
        for part in parts:  # one by one: a sum over a dimension promises no order
            total += part
        return (packed // PACK).sum(0), (packed % PACK).sum(0), total

    def tiles(self) -> Iterator[torch.Tensor]:
        """The logits, tile after tile, each in the place of the one before; columns beyond the last are −inf."""
        height, width = self.problem.weight.shape[0], self.logits.shape[1]
        for start in range(0, height, width):
            tile = self.product(slice(start, start + width))
            tile[:, height - start :] = -torch.inf
            yield tile

    def product(self, columns: Any) -> torch.Tensor:
        """The logits of these columns (a slice or indices), padded by those of zero rows of weight."""
        weight, bias = self.problem.weight[columns], self.problem.bias
        missing = self.logits.shape[1] - weight.shape[0]
        torch.mm(self.hidden, _padded(weight, missing).to(self.problem.dtype).T, out=self.logits)
        return self.problem.finish(self.logits, None if bias is None else pad(bias[columns], (0, missing)))


def _padded(matrix: torch.Tensor, missing: int) -> torch.Tensor:
    return pad(matrix, (0, 0, 0, missing)) if missing else matrix


def _reduce(logits: torch.Tensor, truth: torch.Tensor, base: torch.Tensor) -> Reduced:
    """Both counts, packed, and Σ exp(z − base), per row: compiled into one pass.

    Counts are summed in the dtype of the logits, so that one width of vector serves the whole pass, and packed,
    as a third sum would not find room in the registers.
    """
    above, same = logits > truth[:, None], logits == truth[:, None]
    counts = above.to(logits.dtype) * PACK + same.to(logits.dtype)
    return counts.sum(1), (logits - base[:, None]).exp().sum(1)


def _plainly(logits: torch.Tensor, truth: torch.Tensor, base: torch.Tensor) -> Reduced:
    """What `_reduce` does, without a compiler: the tile is used up, to spare memory."""
    above, same = (logits > truth[:, None]).sum(1), (logits == truth[:, None]).sum(1)
    return above * PACK + same, logits.sub_(base[:, None]).exp_().sum(1)


@cache
def _reduction(dtype: torch.dtype, device: torch.device, threads: int) -> Reduce:
    """`_reduce`, compiled for all shapes, or, where there is no compiler, `_plainly`."""
    compiled: Reduce = torch.compile(dynamic=True, fullgraph=True, isolate_recompiles=True)(_reduce)  # type: ignore
    column = torch.zeros(ROWS, dtype=dtype, device=device)
    try:  # on a full tile first: the compiler shares work out among threads by the size that it sees
        compiled(torch.zeros(ROWS, TILE, dtype=dtype, device=device), column, column)
    except (TorchDynamoException, RuntimeError) as error:
        _say_once(str(error).strip().splitlines()[0])
        return _plainly
    return compiled


@cache
def _say_once(reason: str) -> None:
    what = "no compiled reduction, so ranking runs on plain tiles: the same counts, slower"
    log.warning("%s (%s). Install a C++ compiler such as g++.", what, reason)
