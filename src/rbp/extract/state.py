"""Digest all that determines a model's logits, so that no two models share a name and every change is seen.

A model in memory is the caller's: rows are read by copies that share its weights (`fresh`), and whatever writes to a
weight all the same is undone (`Guard`).
"""

import copy
import inspect
import json
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from rbp.errors import DataError, first_line
from rbp.extract.devices import hooks, waiting
from rbp.extract.fingerprint import digest_bytes

_LIBRARIES = ("torch", "transformers", "peft", "accelerate")  # whose functions are named, not described
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_PARTS = ("_parameters", "_buffers", "_modules")  # of a module, which are noted by themselves
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs")
# where a model came from, what it was told, and where its parts lie
_BESIDE = {"name_or_path", "generation_config", "warnings_issued", "_hf_hook", "hf_device_map"}
_INTERNAL = vars(nn.Module()).keys() - {*_HOOKS, "training"}


@dataclass(frozen=True)
class State:
    """All that determines a model's logits, by name.

    weights: the parameters themselves, or what fetches them, each with how often it was written to; entries: a digest
    each of buffers, other tensors, numbers and words, hooks, adapters, modes, classes and the configuration.
    """

    weights: dict[str, tuple[Any, int | str]]
    entries: dict[str, str]

    @cached_property
    def digest(self) -> str:
        """Digest everything: contents, not where they came from."""
        tensors = {id(weight): weight for weight, _ in self.weights.values()}
        with ThreadPoolExecutor() as pool:
            contents = dict(zip(tensors, pool.map(_tensor, tensors.values()), strict=True))
        weights = {name: contents[id(weight)] for name, (weight, _) in self.weights.items()}
        return sha256(json.dumps([weights, self.entries], sort_keys=True).encode()).hexdigest()

    def changed_since(self, before: "State") -> list[str]:
        """List the names of weights and entries that differ from an earlier state."""
        old, new = (
            {**each.entries, **{name: str(version) for name, (_, version) in each.weights.items()}}
            for each in (before, self)
        )
        return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def state_of(model: nn.Module) -> State:
    """Note all that determines a model's logits: no weight is copied, and none is read before a digest is asked for."""
    weights: dict[str, tuple[Any, int | str]] = {}
    entries: dict[str, str] = {}
    known: set[int] = set()  # configurations, which many modules share
    for place, module in model.named_modules():
        for name, weight in module.named_parameters(recurse=False):
            waits = [partial(each.weights_map.__getitem__, name) for each in hooks(module) if weight.is_meta]
            weights[f"{place}.{name}"] = (waits[0], 0) if waits else (weight, _version(weight))
        noted = {name: value for name, value in vars(module).items() if name not in _INTERNAL | _BESIDE}
        noted = {name: value for name, value in noted.items() if name not in _HOOKS or value}
        configs = {name: id(value) for name, value in noted.items() if hasattr(value, "to_diff_dict")}
        noted = {name: value for name, value in noted.items() if configs.get(name) not in known}
        known |= {*configs.values()}
        noted |= dict(module.named_buffers(recurse=False)) | {"class": [type(module), _instead(type(module))]}
        entries |= {f"{place}.{name}": digest_of(value) for name, value in noted.items()}
    return State(weights, entries)


def digest_of(value: Any) -> str:
    """Digest a value by its contents, not by places in memory or names of files."""
    digest = sha256()
    _describe(value, digest.update, {})
    return digest.hexdigest()


def _instead(kind: type[nn.Module]) -> Any:
    """Return the forward pass that another package put in place of a class's own, as faster kernels do."""
    owner = next(each for each in kind.__mro__ if "forward" in vars(each))
    return None if kind.forward.__module__ == owner.__module__ else kind.forward


def _version(weight: torch.Tensor) -> int | str:
    return _tensor(weight) if weight.is_inference() else int(weight._version)


def _tensor(values: Any) -> str:
    values = values() if callable(values) else values
    what = f"{values.dtype} {tuple(values.shape)}"
    if not values.is_meta:
        what += f" {digest_bytes(values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())}"
    return sha256(what.encode()).hexdigest()


def _describe(value: Any, update: Any, seen: dict[int, Any]) -> None:
    """Feed a digest with a value: its contents, where it has any, and never a place in memory."""
    if isinstance(value, torch.Tensor):
        name = _tensor(value)
    elif isinstance(value, type | types.BuiltinFunctionType | types.ModuleType):
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    else:
        name = repr(value) if isinstance(value, _PLAIN) else type(value).__qualname__
    update(f"{name}(".encode())
    if id(value) not in seen:
        seen[id(value)] = value  # kept, so that no other gets its place
        for part in _parts(value):
            _describe(part, update, seen)
    update(b")")


def _parts(value: Any) -> Iterable[Any]:
    """List the parts of a value that are described by themselves."""
    match value:
        case nn.Module() | type() | types.ModuleType() | torch.Tensor():  # a module is noted where it stands
            return ()
        case dict():  # a key that is no text, such as a hook's number, says nothing
            return [each for key, content in value.items() for each in (key if isinstance(key, str) else "", content)]
        case list() | tuple() | deque():
            return value
        case set() | frozenset():
            return sorted(map(str, value))
        case partial():
            return value.func, value.args, value.keywords
        case types.MethodType():
            return value.__func__, value.__self__
        case types.CodeType():
            return value.co_code, value.co_names, value.co_consts
        case types.FunctionType():  # a library's by its name; another by its code and all that this refers to
            around = inspect.getclosurevars(value)
            parts = [value.__module__, value.__qualname__, around.nonlocals, value.__defaults__, value.__kwdefaults__]
            ours = str(value.__module__).partition(".")[0] not in _LIBRARIES
            return [*parts, value.__code__, around.globals] if ours else parts
    if hasattr(value, "to_diff_dict"):  # a configuration
        entries = {**value.to_dict(), "attention": getattr(value, "_attn_implementation", None)}
        return [[name, entries[name]] for name in sorted(entries) if not name.startswith(("_name", "transformers_"))]
    if hasattr(value, "tobytes"):  # an array
        return (value.tobytes(),)
    return [each for pair in sorted(vars(value).items()) for each in pair] if hasattr(value, "__dict__") else ()


_SAVE = "Take that away first (old weight_norm: remove_weight_norm), or save_pretrained it and give the folder."


def fresh(model: Any, written: Iterable[str] = ()) -> Any:
    """Copy a model for inference, sharing its weights: no dropout, no mixed precision, uncompiled.

    written: the names of weights of which it has copies. Raises DataError for a model that cannot be copied.
    """
    model = getattr(model, "_orig_mod", model)  # as torch.compile wraps it
    apart = {id(each) for name, each in model.named_parameters() if name in written}
    shared: dict[int, Any] = {id(each): each for each in model.parameters() if id(each) not in apart}
    shared |= {id(each): each for each in waiting(model)}
    try:
        twin = copy.deepcopy(model, shared)
    except Exception as error:  # of any kind: a lock, a tensor that is no leaf of a graph
        what = f"the model holds what cannot be copied: {first_line(error).partition('.  ')[0]}"
        raise DataError(what, type(model).__name__, _SAVE) from None
    plain = vars(twin).pop("_original_forward", None)  # as accelerate wraps it, and so Trainers do
    if plain is not None:
        vars(twin).pop("forward", None)
        if getattr(plain, "__func__", None) is not type(twin).forward:
            twin.forward = plain
    return twin.eval()


class Guard:
    """Keep a model's weights and buffers as they are: undo what an operation writes to one.

    written: the names of weights and buffers that were written to.
    """

    def __init__(self, model: nn.Module) -> None:
        self.written: set[str] = set()
        tensors = [each for each in (*model.named_parameters(), *model.named_buffers()) if not each[1].is_meta]
        self._known = {each.untyped_storage().data_ptr(): (name, each.detach()) for name, each in tensors}
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
            for each in target if isinstance(target, list | tuple) else [target]:
                known = self._known.get(each.untyped_storage().data_ptr()) if isinstance(each, torch.Tensor) else None
                if known is not None and known[0] not in self._before:
                    name, values = known
                    self.written.add(name)
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
    """Restore a model's attributes, modes and configuration after its copies were run.

    Copies leave the model alone, unless its forward pass was replaced by a function that holds the model itself.
    """
    config = getattr(model, "config", None)
    holders: list[Any] = [*model.modules(), *([] if config is None else [config])]
    before = [
        (vars(each), dict(vars(each)), {n: copy.copy(vars(each)[n]) for n in _PARTS if n in vars(each)})
        for each in holders
    ]
    training = [each for each in model.modules() if each.training]
    for each in training:
        each.training = False
    try:
        yield
    finally:
        for now, attributes, parts in before:
            now.clear()
            now.update(attributes)
            for name, content in parts.items():
                now[name].clear()
                now[name].update(content)
