"""Digest a model's weights, and keep a model as it is while it is read.

A model in memory is the caller's: rows are read by copies that share its weights (`fresh`), and whatever writes to a
weight all the same is undone (`Guard`).
"""

import copy
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from rbp.errors import DataError, first_line
from rbp.fingerprint import digest_bytes
from rbp.models.devices import hooks, waiting

_PARTS = ("_parameters", "_buffers", "_modules")  # of a module, each a dictionary of its own
_TAKEN_OFF = {"training", "_compiled_call_impl", "_original_forward", "forward"}  # while a model is ranked


def digest_of(model: Any) -> str:
    """Digest a model's weights, buffers and configuration: the contents, not where they came from.

    What else its logits depend on (code, hooks, which adapter is on) has no part in it: before a store is used again,
    the model ranks two of its rows (`rbp.extract.extraction`).
    """
    tensors: dict[str, Any] = {}
    for place, module in unwrapped(model).named_modules():
        for name, weight in module.named_parameters(recurse=False):
            waits = [partial(hook.weights_map.__getitem__, name) for hook in hooks(module) if weight.is_meta]
            tensors[f"{place}.{name}"] = waits[0] if waits else weight
        tensors |= {f"{place}.{name}": values for name, values in module.named_buffers(recurse=False)}
    once = {id(values): values for values in tensors.values()}
    with ThreadPoolExecutor() as pool:
        digests = dict(zip(once, pool.map(_tensor, once.values()), strict=True))
    config = {n: v for n, v in model.config.to_dict().items() if not n.startswith(("_name", "transformers_"))}
    contents = {name: digests[id(values)] for name, values in tensors.items()}
    stated = json.dumps([contents, config], sort_keys=True, default=lambda value: type(value).__name__)
    return sha256(stated.encode()).hexdigest()


def _tensor(values: Any) -> str:
    values = values() if callable(values) else values
    if is_traceable_wrapper_subclass(values):  # of torchao or quanto: a tensor made of tensors
        inner, _ = values.__tensor_flatten__()
        return " ".join([type(values).__name__, *(_tensor(getattr(values, name)) for name in inner)])
    fault = f"{values.dtype} {tuple(values.shape)}"
    if not values.is_meta:
        fault += f" {digest_bytes(values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())}"
    return sha256(fault.encode()).hexdigest()


def unwrapped(model: Any) -> Any:
    """Return the model that `torch.compile` wrapped, or the model itself."""
    return getattr(model, "_orig_mod", model)


def holds_more(weight: Any) -> bool:
    """Return whether a weight is more than its numbers: a class of its own, as quantizers have, or tensors beside it.

    What a module moves from there to itself when it first reads, a copy that shares the weight would take away. Nor can
    one be shared that is packed in whole numbers or single bytes: a hook of the model itself may unpack it, as
    compressed-tensors' does.
    """
    plain = type(weight) in (torch.Tensor, nn.Parameter) and weight.is_floating_point() and weight.element_size() > 1
    return not plain or not all(isinstance(value, bool | int | float | str | None) for value in vars(weight).values())


def is_shareable(model: nn.Module) -> bool:
    """Return whether copies may share the model's weights (`holds_more`); if not, it reads by itself.

    Nor may they where a module keeps weights in a container of its own, as compressed-tensors does: a copy has none.
    """
    plain = all(isinstance(module._parameters, dict) for module in model.modules())
    return plain and not any(map(holds_more, model.parameters()))


_SAVE = "Take that away first (old weight_norm: remove_weight_norm), or save_pretrained it and give the folder."


def fresh(model: Any, written: Iterable[str] = ()) -> Any:
    """Copy a model for inference, sharing its weights: no dropout, no mixed precision, uncompiled.

    One whose weights cannot be shared is given back itself. written: the names of weights of which the copy has its
    own. Raises DataError for a model that cannot be copied.
    """
    model = unwrapped(model)
    if not is_shareable(model):
        return model
    apart = {id(parameter) for name, parameter in model.named_parameters() if name in written}
    shared: dict[int, Any] = {
        id(parameter): parameter for parameter in model.parameters() if id(parameter) not in apart
    }
    shared |= {id(tensor): tensor for tensor in waiting(model)}
    try:
        return _plain(copy.deepcopy(model, shared)).eval()
    except Exception as error:  # of any kind: a lock, a tensor that is no leaf of a graph
        fault = f"the model holds what cannot be copied: {first_line(error).partition('.  ')[0]}"
        raise DataError(fault, type(model).__name__, _SAVE) from None


def _plain(model: Any) -> Any:
    """Take off mixed precision, as accelerate and so Trainers wrap a model in it."""
    plain = vars(model).pop("_original_forward", None)
    if plain is not None:
        vars(model).pop("forward", None)
        if getattr(plain, "__func__", None) is not type(model).forward:
            model.forward = plain
    return model


class Guard:
    """Keep a model's weights and buffers as they are: undo what an operation writes to one.

    written: the names of weights that were written to; buffers are the model's own, but in copies.
    """

    def __init__(self, model: nn.Module) -> None:
        self.written: set[str] = set()
        every = (*model.named_parameters(), *model.named_buffers())
        tensors = [entry for entry in every if not entry[1].is_meta and not is_traceable_wrapper_subclass(entry[1])]
        self._known = {tensor.untyped_storage().data_ptr(): (name, tensor.detach()) for name, tensor in tensors}
        self._weights = {name for name, _ in model.named_parameters()}
        self._before: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Undo writes to the model, while it runs in this thread."""
        try:
            with Operations(before=self._keep):
                yield
        finally:
            with torch.inference_mode():
                for values, before in self._before.values():
                    values.copy_(before)
            self._before = {}

    def _keep(self, function: Any, args: Any, kwargs: Any) -> None:
        """Keep a copy of what an operation is about to write to."""
        for i, argument in enumerate(function._schema.arguments if function._schema.is_mutable else ()):
            target = (args[i] if i < len(args) else kwargs.get(argument.name)) if argument.is_write else None
            for tensor in target if isinstance(target, list | tuple) else [target]:
                if not isinstance(tensor, torch.Tensor) or is_traceable_wrapper_subclass(tensor):
                    continue
                kept = self._known.get(tensor.untyped_storage().data_ptr())
                if kept is not None and kept[0] not in self._before:
                    name, values = kept
                    self.written |= {name} & self._weights
                    self._before[name] = values, values.clone()


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Call functions around each operation on tensors in this thread: before it, and on its result."""

    def __init__(self, before: Callable[..., Any] = lambda *_: None, after: Callable[[Any], Any] = id) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._before, self._after = before, after

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Keep other threads able to compile while one is in this mode."""
        return True

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._before(function, args, kwargs or {})
        result = function(*args, **(kwargs or {}))
        self._after(result)
        return result


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Let a model read for inference, and restore its attributes, modes and configuration then.

    Mixed precision and compilation are taken off for as long. What a model that reads by itself (`is_shareable`) moves
    between its modules and weights stays where it is: as after any first pass.
    """
    moves, config = not is_shareable(model), getattr(model, "config", None)
    holders: list[Any] = [*model.modules(), *([] if config is None else [config])]
    before = [
        (vars(holder), dict(vars(holder)), {n: copy.copy(vars(holder)[n]) for n in _PARTS if n in vars(holder)})
        for holder in holders
    ]
    for module in model.modules():
        module.training = False
        vars(module).pop("_compiled_call_impl", None)
    _plain(unwrapped(model))
    try:
        yield
    finally:
        for now, attributes, parts in before:
            if moves:
                now.update({name: attributes[name] for name in _TAKEN_OFF & attributes.keys()})
                continue
            now.clear()
            now.update(attributes)
            for name, content in parts.items():
                now[name].clear()
                now[name].update(content)
