"""Group output tokens whose weight rows and biases are bit-identical, so that their logits tie exactly.

The groups are cached while weight and bias live and stay as they are, by torch's own count of changes in place. Some
changes escape that count (through `.data`, or memory that numpy shares), so `changed` asks again at each call whether
the columns of one name are still the same: none is ever taken for the equal of one that it no longer equals.
"""

from threading import Lock
from typing import Any, NamedTuple
from weakref import ref

import torch
from torch.utils.weak import WeakTensorKeyDictionary

BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
PIECE = 2**22  # values that are looked at together


class Names(NamedTuple):
    """of: [V] int32, for each column the first one that has the same row of weight, and bias, bit for bit.

    later, first: the columns that are not the first of their name, and the first column for each of them.

    Columns of one name have one logit, in any exact reckoning; a product may still round it in two ways, as some round
    the edges of a block otherwise. Backends let the target's logit stand for all of its name.
    """

    of: torch.Tensor
    later: torch.Tensor
    first: torch.Tensor


_cache: Any = WeakTensorKeyDictionary()  # by weight: what it and its bias were, the bias, and the names
_lock = Lock()


def names_of(weight: torch.Tensor, bias: torch.Tensor | None, rows: int) -> Names:
    """Return the names of the first `rows` columns of weight [V, d] and bias [V], from the cache or found anew."""
    given = [weight] if bias is None else [weight, bias]
    if any(tensor.is_inference() for tensor in given):  # whose changes are not counted
        return find_names(weight[:rows], None if bias is None else bias[:rows])
    with _lock:
        before, last, cached = _cache.get(weight, (None, None, None))
        now = rows, [_state(tensor) for tensor in given]
        if before == now and last() is given[-1]:
            names: Names = cached
        else:
            names = find_names(weight.detach()[:rows], None if bias is None else bias.detach()[:rows])
            _cache[weight] = now, ref(given[-1]), names
        return names


def forget(weight: torch.Tensor) -> None:
    """Find the names anew the next time."""
    with _lock:
        _cache.pop(weight, None)


def find_names(weight: torch.Tensor, bias: torch.Tensor | None) -> Names:
    """Find the names of the columns of weight [V, d] and bias [V]."""
    columns = torch.arange(weight.shape[0], device=weight.device)
    of = columns.int()
    some = columns[_shared(_digests(weight, bias, slice(None), 4))]  # most rows differ in their first values
    some = some[_shared(_digests(weight, bias, some, 32))]
    while len(some):  # once, unless digests of rows that differ are the same
        _, group = torch.unique(_digests(weight, bias, some, weight.shape[1]), return_inverse=True)
        first = torch.full_like(some, len(columns)).scatter_reduce(0, group, some, "amin")[group]
        same = _same(weight, bias, some, first)
        of[some[same]] = first[same].int()
        some = some[~same]
    later = columns[of != columns]
    return Names(of, later, of[later].long())


def changed(names: Names, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return [], whether columns that have one name have become different."""
    if not len(names.later):
        return torch.zeros((), dtype=torch.bool, device=weight.device)
    return ~_same(weight, bias, names.later, names.first).all()


def _state(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return where a tensor's values lie, and how often torch has changed them in place."""
    return tensor.data_ptr(), tensor._version, tensor.shape, tensor.stride(), tensor.dtype


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
    same = torch.cat([(bits[one] == bits[other]).all(1) for one, other in pairs])
    return same if bias is None else same & (_bits(bias)[ones] == _bits(bias)[others])


def _bits(values: torch.Tensor) -> torch.Tensor:
    """Return the values' bits, as whole numbers."""
    return values.view(BITS[values.dtype.itemsize])


def _shared(numbers: torch.Tensor) -> torch.Tensor:
    """Return whether each number occurs more than once."""
    _, group, count = torch.unique(numbers, return_inverse=True, return_counts=True)
    shared: torch.Tensor = count[group] > 1
    return shared
