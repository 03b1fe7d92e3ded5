"""Spread one model over several devices, memory and disk: accelerate places its layers, and moves what they read.

Layers that wait in memory or on disk are fetched whenever they are run. The output layer is not among them: the ranking
reads its rows itself, on the device where they lie.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from rbp.choices import known_device
from rbp.errors import DataError, ParameterError, install_extra

Limits = dict[int | str, int]
SHARE = 0.9  # of what is free, for weights: the rest is for what is computed


def must_be_installed() -> None:
    """Raise DataError where accelerate is not."""
    if find_spec("accelerate") is None:
        fault = "accelerate, which spreads a model over devices, is not installed"
        raise DataError(fault, "--device spread", install_extra("devices"))


def find_device(name: str) -> torch.device:
    """Find the device `name`; "auto" takes a GPU where there is one. Raises ParameterError if it is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(1, device=known_device(name))
    except (RuntimeError, AssertionError):  # the latter from a PyTorch without CUDA
        raise ParameterError(f"there is no device {name!r}", "--device", "Take --device cpu.") from None
    return torch.device(name)


def device_of(model: Any) -> torch.device:
    """Find the device that a model in memory reads on: where its layers run, if all its weights wait elsewhere."""
    device = model.device
    if device.type == "meta":
        runs = (hook.execution_device for module in model.modules() for hook in hooks(module))
        device = next((place for place in runs if place is not None), device)
    return find_device(f"cuda:{device}" if isinstance(device, int) else str(device))


def limits(reserved: int) -> Limits:
    """Return the bytes that a model may take of each GPU and of memory ("cpu"), less `reserved` of the first."""
    from accelerate.utils import get_max_memory

    memory = {place: int(SHARE * most) for place, most in get_max_memory().items()}
    first = next(iter(memory))
    return memory | {first: max(0, memory[first] - reserved)}


def hold_head(model: Any, device: torch.device) -> None:
    """Put the output layer of a spread model on `device` for good, if it waits elsewhere."""
    from accelerate.hooks import AlignDevicesHook, add_hook_to_module, remove_hook_from_module
    from accelerate.utils import set_module_tensor_to_device

    layer = model.get_output_embeddings()
    if layer is None or not layer.weight.is_meta:
        return
    weights = next(hook.weights_map for hook in hooks(layer) if hook.weights_map is not None)
    remove_hook_from_module(layer)
    for name, _ in list(layer.named_parameters()):
        set_module_tensor_to_device(layer, name, device, value=weights[name])
    add_hook_to_module(layer, AlignDevicesHook(device))


def places(model: Any) -> tuple[str, ...]:
    """List where the parts of a model that accelerate spreads lie, such as "cuda:0", "cpu", "disk"; () for others."""
    if not any(hooks(module) for module in model.modules()):
        return ()
    device_map = getattr(model, "hf_device_map", None) or {}
    names = {f"cuda:{place}" if isinstance(place, int) else str(place) for place in device_map.values()}
    return tuple(sorted(names)) or ("elsewhere",)


def waiting(model: nn.Module) -> Iterator[Any]:
    """Yield what a spread model fetches its weights from: its copies can share that."""
    for module in model.modules():
        for hook in hooks(module):
            yield from (hook.weights_map, hook.tied_params_map)


def hooks(module: nn.Module) -> list[Any]:
    """Return the hooks of accelerate that know where a module's weights are."""
    hook = vars(module).get("_hf_hook")
    return [part for part in getattr(hook, "hooks", [hook]) if hasattr(part, "weights_map")]
