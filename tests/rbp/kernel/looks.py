"""What makes a program wait for its GPU, counted on any device: values that it looks at, sizes that depend on them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

READS = {"tolist", "item", "cpu", "numpy"}  # of a tensor's values, by the program
SIZES = {"_local_scalar_dense", "equal", "is_nonzero", "masked_select", "nonzero", "_unique2", "unique_dim"}
MASKED = {"index", "index_put", "index_put_", "_index_put_impl_"}  # which look for what is True in a mask


class _Reads(TorchFunctionMode):
    def __init__(self, seen: Counter[str]) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name in READS - {"item"}:  # which the other sees
            self.seen[name] += 1
        return function(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    def __init__(self, seen: Counter[str], all_: Counter[str]) -> None:
        super().__init__()
        self.seen, self.all = seen, all_

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        masks = args[1] if name in MASKED else ()
        if name in SIZES or any(mask is not None and mask.dtype == torch.bool for mask in masks):
            self.seen[name] += 1
        self.all[name] += 1
        return function(*args, **(kwargs or {}))


@contextmanager
def looks() -> Iterator[tuple[Counter[str], Counter[str]]]:
    """What waits for the device inside, and all operations of torch, by name."""
    seen, every = Counter[str](), Counter[str]()
    with _Reads(seen), _Operations(seen, every):
        yield seen, every
