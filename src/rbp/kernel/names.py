"""Group output tokens whose weight rows and biases are bit-identical, so that their logits tie exactly."""

from dataclasses import dataclass

import torch

BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
PIECE = 2**22  # values that are looked at together


@dataclass(frozen=True)
class EqualRows:
    """names: [V] int32, for each column the first one that has the same row of weight, and bias, bit for bit.

    Columns of one name have one logit, in any exact reckoning; a product may still round it in two ways, as some round
    the edges of a block otherwise. Backends let the target's logit stand for all of its name.
    """

    names: torch.Tensor


def equal_rows(weight: torch.Tensor, bias: torch.Tensor | None = None, vocab: int | None = None) -> EqualRows:
    """Find the equal rows among the first `vocab` (None: all) of weight [V, d] with bias [V], as they are now.

    Whoever ranks much by one output layer finds them once, and gives them to `linear_rank`; after a change of weight or
    bias they must be found anew.
    """
    weight, bias = weight.detach()[:vocab], None if bias is None else bias.detach()[:vocab]
    columns = torch.arange(weight.shape[0], device=weight.device)
    names = columns.int()
    some = columns[_shared(_digests(weight, bias, slice(None), 4))]  # most rows differ in their first values
    some = some[_shared(_digests(weight, bias, some, 32))]
    while len(some):  # once, unless digests of rows that differ are the same
        _, group = torch.unique(_digests(weight, bias, some, weight.shape[1]), return_inverse=True)
        first = torch.full_like(some, len(columns)).scatter_reduce(0, group, some, "amin")[group]
        same = _same(weight, bias, some, first)
        names[some[same]] = first[same].int()
        some = some[~same]
    return EqualRows(names)


def _digests(
    weight: torch.Tensor, bias: torch.Tensor | None, columns: torch.Tensor | slice, width: int
) -> torch.Tensor:
    """Compute a number for each column from the bits of its row's first `width` values, and of its bias."""
    bits = _bits(weight[:, :width])
    factors = torch.randint(-(2**62), 2**62, (bits.shape[1] + 1,), generator=torch.Generator().manual_seed(0))
    factors = factors.to(bits.device) | 1
    parts = [columns] if isinstance(columns, slice) else torch.split(columns, max(1, PIECE // width))
    digests = torch.cat([(bits[part] * factors[1:]).sum(1) for part in parts])
    return digests if bias is None else digests + _bits(bias)[columns] * factors[0]


def _same(weight: torch.Tensor, bias: torch.Tensor | None, ones: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """Return whether the rows of weight, and the biases, of pairs of columns are the same bits."""
    bits, size = _bits(weight), max(1, PIECE // weight.shape[1])
    pairs = zip(torch.split(ones, size), torch.split(others, size), strict=True)
    same = torch.cat([(bits[first] == bits[second]).all(1) for first, second in pairs])
    return same if bias is None else same & (_bits(bias)[ones] == _bits(bias)[others])


def _bits(values: torch.Tensor) -> torch.Tensor:
    """Return the values' bits, as whole numbers."""
    return values.view(BITS[values.dtype.itemsize])


def _shared(numbers: torch.Tensor) -> torch.Tensor:
    """Return whether each number occurs more than once."""
    _, group, count = torch.unique(numbers, return_inverse=True, return_counts=True)
    shared: torch.Tensor = count[group] > 1
    return shared
