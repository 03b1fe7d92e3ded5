"""Ranks by tiles that stay in cache: one product, one reduction, and the tile is overwritten by the next.

Why the counts are exact: within a row each token has one logit. The target's own comes first, from a product of the
hidden states and their targets' rows, and stands for every token with the same row of weight, whatever the tiles give
there: a product may round one sum in two ways at two places. Besides, every product has one shape: short tiles are
padded, and the padding is struck out. So counts do not depend on how the work is cut, wherever a product's bits do not
depend on the place; that was so wherever it was tried.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad

from rbp.kernel.problem import Problem, Tally, finite
from rbp.kernel.reduction import PACK, Reduce, reduction

# Products on the CPU: the last columns that do not fill a vector kernel (8 to 48 wide) are summed in another order,
# so tiles are multiples of 96, and still are when up to 12 threads share one; few rows take other code paths too.
# Counts do not depend on the two where a product's bits do not; the sum of exponentials does in its last bits, on TILE.
ROWS, TILE = 1024, 1152
STEP = 128  # a short block on the CPU is padded to a multiple of this


def tally(problem: Problem, reduce: Reduce | None = None) -> Tally:
    """Count tile by tile. Memory: ROWS × TILE logits, and two blocks of up to ROWS × d and TILE × d values.

    reduce: the pass over a tile, if not the compiled one.
    """
    height, device = problem.hidden.shape[0], problem.hidden.device
    if not height:
        return Tally(*torch.zeros(6, 0, dtype=problem.dtype, device=device))
    reduce = reduce or reduction(problem.dtype, device, [(ROWS, TILE), (STEP, TILE)])
    names = problem.names
    columns = torch.split(pad(names, (0, -len(names) % TILE), value=-1), TILE)
    buffer = torch.empty(ROWS * TILE, dtype=problem.dtype, device=device)
    step = STEP if device.type == "cpu" else ROWS

    def block(start: int) -> _Block:
        hidden, target = problem.hidden[start : start + ROWS], problem.target[start : start + ROWS]
        missing = -len(hidden) % step
        hidden = _padded(hidden.to(problem.dtype), missing)
        logits = buffer[: len(hidden) * TILE].view(len(hidden), TILE)
        target = pad(target, (0, missing))
        return _Block(problem, hidden, target, columns, names[target], logits)

    starts = range(0, height, ROWS)
    parts = [block(start).tally(reduce) for start in starts]
    far = torch.stack([(part.total == torch.inf).any() for part in parts]).tolist()  # one look for all blocks
    for i, start in enumerate(starts):
        if far[i]:
            parts[i] = block(start).again(reduce, parts[i])
    return Tally(*(torch.cat(field)[:height] for field in zip(*parts, strict=True)))


@dataclass(frozen=True)
class _Block:
    """Some rows, padded by zeros: hidden [R, d] in the dtype of the sums, target [R]; logits [R, C] is scratch.

    names: the columns', [C] for each tile, −1 for what pads the last; target_names: the targets', [R].
    """

    problem: Problem
    hidden: torch.Tensor
    target: torch.Tensor
    names: tuple[torch.Tensor, ...]
    target_names: torch.Tensor
    logits: torch.Tensor

    def tally(self, reduce: Reduce) -> Tally:
        """Tally these rows, padding rows included, with the truth as the base."""
        truth = self.product(self.target).diagonal().clone()
        return self.sweep(truth, finite(truth), reduce)

    def again(self, reduce: Reduce, before: Tally) -> Tally:
        """Tally again with the highest logit as the base where a truth lies very far below it."""
        peak = torch.stack([tile.amax(1) for tile in self.tiles()]).amax(0)
        return self.sweep(before.truth, torch.where(before.total == torch.inf, finite(peak), before.base), reduce)

    def sweep(self, truth: torch.Tensor, base: torch.Tensor, reduce: Reduce) -> Tally:
        """Count against the truth, sum exp(z − base), and look for the highest logit, over all tiles."""
        counts, total = list[torch.Tensor](), torch.zeros_like(truth, dtype=torch.float64)
        highest, top = truth.clone(), self.target_names.long()  # the lowest id of all that have the truth's logit
        for i, (tile, name) in enumerate(zip(self.tiles(), self.names, strict=True)):
            count, part, peak = reduce(tile, truth, base, name, self.target_names)
            counts.append(count)
            total += part
            start = i * len(name)
            rows = torch.nonzero((peak > highest) | ((peak == highest) & (start < top)))[:, 0]  # few, after some tiles
            peak, column = self.highest(tile[rows], peak[rows], name, self.target_names[rows])
            before, first = highest[rows], start + column
            lowest = torch.where(peak == before, torch.minimum(top[rows], first), top[rows])
            top[rows] = torch.where(peak > before, first, lowest)
            highest[rows] = torch.maximum(before, peak)
        packed = torch.stack(counts).long()
        struck_out = -self.problem.weight.shape[0] % self.logits.shape[1]
        equal = (packed % PACK).sum(0) - struck_out * (truth == -torch.inf)
        return Tally((packed // PACK).sum(0), equal, truth, base, total, top)

    @staticmethod
    def highest(
        logits: torch.Tensor, peak: torch.Tensor, name: torch.Tensor, target_name: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the highest logit [R] beside the truth's own columns, and the first column that has it.

        logits [R, C] of some rows, whose highest ones are `peak`.
        """
        column = logits.argmax(1)
        own = torch.nonzero(name[column] == target_name)[:, 0]  # only these rows are masked, which costs the most
        if len(own):
            peak[own], column[own] = logits[own].masked_fill_(name == target_name[own, None], -torch.inf).max(1)
        return peak, column

    def tiles(self) -> Iterator[torch.Tensor]:
        """Yield the logits, tile after tile, each in the place of the last; columns beyond the last are −inf."""
        height, width = self.problem.weight.shape[0], self.logits.shape[1]
        for start in range(0, height, width):
            tile = self.product(slice(start, start + width))
            tile[:, height - start :] = -torch.inf
            yield tile

    def product(self, columns: Any) -> torch.Tensor:
        """Compute the logits of these columns (a slice or indices), padded by logits of zero rows of weight."""
        weight, bias = self.problem.weight[columns], self.problem.bias
        missing = self.logits.shape[1] - weight.shape[0]
        torch.mm(self.hidden, _padded(weight, missing).to(self.problem.dtype).T, out=self.logits)
        return self.problem.finish(self.logits, None if bias is None else pad(bias[columns], (0, missing)))


def _padded(matrix: torch.Tensor, missing: int) -> torch.Tensor:
    return pad(matrix, (0, 0, 0, missing)) if missing else matrix
