"""Adapters of a model (PEFT), which run beside its weights.

A merge rounds, and adds to weights that layers may share (`layer_replication`): nothing is merged but the count of S.
"""

import logging
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rbp.errors import DataError, first_line, install_extra
from rbp.io import parse_json
from rbp.models.training import ADAPTER
from rbp.names import and_more

log = logging.getLogger(__name__)


def weights_as_merged(module: Any) -> Iterator[tuple[Any, nn.Parameter]]:
    """Yield a model's parameters as they would be with its adapters merged, each with a key that identifies it.

    A shared one has one key, unless an adapter adds to it in some place: merged, that place has its own.
    """
    peft = sys.modules.get("peft")
    if peft is not None:
        from peft.tuners.tuners_utils import BaseTunerLayer
        from peft.utils.other import AuxiliaryTrainingWrapper

        if isinstance(module, AuxiliaryTrainingWrapper):
            yield from weights_as_merged(module.original_module)
            return
        if isinstance(module, BaseTunerLayer):
            for parameter in module.get_base_layer().parameters():
                yield (id(parameter), id(module)), parameter
            return
        if hasattr(module, "adaption_gate"):  # which stands around an attention, and does not merge into it
            yield from weights_as_merged(module.model)
            return
        if isinstance(module, peft.PeftModel):
            module = module.get_base_model()
    for parameter in module.parameters(recurse=False):
        yield id(parameter), parameter
    for child in module.children():
        yield from weights_as_merged(child)


def adapt(model: nn.Module, folder: Path, adapter_shapes: dict[str, list[int]], name: str, base: str) -> Any:
    """Apply the adapter of a folder beside the model's weights; return the model.

    adapter_shapes: the shapes of the adapter's weights by their names; name, base: what errors call the two. Raises
    DataError if peft is not installed, and for an adapter that is none of this model's, or not added to its layers.
    """
    try:
        from peft import PeftConfig, PeftModel, get_peft_model_state_dict
        from peft.tuners.tuners_utils import BaseTuner
    except ImportError:
        fault = "this is an adapter, which peft has to apply, and peft is not installed"
        remedy = f"{install_extra('adapters')}, or merge it (merge_and_unload) and give the merged model."
        raise DataError(fault, name, remedy) from None
    _untie(model, adapter_shapes)
    try:
        with warnings.catch_warnings(action="ignore"):  # of what is checked here, and of ties, which are cut
            config = PeftConfig.from_pretrained(str(folder))
            stated = parse_json((folder / ADAPTER).read_bytes())
            unknown = stated.keys() - config.to_dict().keys() - {"peft_version", "auto_mapping"}
            if other := sorted(key for key in unknown if stated[key]):
                fault = f"the installed peft does not know {and_more(other)} of {ADAPTER}"
                raise DataError(fault, name, "Install the version of peft that wrote it, or a later one.")
            if config.is_prompt_learning:
                kind = str(getattr(config.peft_type, "value", config.peft_type)).lower().replace("_", " ")
                fault = f"the adapter adds tokens before the text ({kind}), not to the model's layers"
                raise DataError(fault, name, "Load both, and give the model in memory to rbp.rank.")
            adapted = PeftModel.from_pretrained(model, str(folder), config=config, ignore_mismatched_sizes=True)
            needed = get_peft_model_state_dict(adapted, save_embedding_layers=False)
            taken = needed | get_peft_model_state_dict(adapted, save_embedding_layers=True)
    except (DataError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # of a kind that peft does not know, or of another model's shape
        fault = f"cannot apply the adapter: {first_line(error)}"
        raise DataError(
            fault, name, "It must be one that peft adds to layers of this base model, such as LoRA."
        ) from None
    # what two modules share, the file may hold of one
    given_storage = {values.untyped_storage().data_ptr() for key, values in taken.items() if key in adapter_shapes}
    lacking = {key for key, values in needed.items() if values.untyped_storage().data_ptr() not in given_storage}
    if other := sorted((adapter_shapes.keys() - taken.keys()) | lacking):
        fault = f"the adapter and the model {base} do not fit together in {and_more(other)}"
        raise DataError(fault, name, f"Check {ADAPTER}: is it this model's adapter?")
    if other := [key for key in sorted(adapter_shapes) if adapter_shapes[key] != list(taken[key].shape)]:
        given_shape, wanted = tuple(adapter_shapes[other[0]]), tuple(taken[other[0]].shape)
        fault = f"{and_more(other)} has the shape {given_shape} in the adapter, and {wanted} by the model {base}"
        remedy = "Is it this model's adapter? If its vocabulary was changed, merge it with peft, and give that model."
        raise DataError(fault, name, remedy)
    if (share := _share_in_base(adapted)) is not None:
        merged = "%s: the weights of %s hold %.0f%% of what the adapter adds: if it was merged into them, give %s alone"
        log.warning(merged, name, base, 100 * share, base)
    # the layers themselves have what is added to them, unless what runs them decides by the tokens
    plain = type(adapted.base_model).forward is BaseTuner.forward
    return adapted.get_base_model() if plain and not getattr(config, "alora_invocation_tokens", None) else adapted


@torch.no_grad()
def _share_in_base(adapted: nn.Module) -> float | None:
    """Estimate how much of an adapter its base's weights hold already; None where that is far from all, or uncertain.

    The regression of weights on what is added to them has a slope of 1 where the adapter was merged, and else near 0.
    """
    product = length = noise = 0.0
    layer: Any
    for layer in adapted.modules():
        weight = getattr(getattr(layer, "base_layer", None), "weight", None)
        if not hasattr(layer, "get_delta_weight") or not isinstance(weight, torch.Tensor):
            continue
        for adapter in getattr(layer, "active_adapters", ()):
            with suppress(Exception):  # of kinds that add nothing to a matrix
                added, held = layer.get_delta_weight(adapter).double(), weight.double()
                square = float((added**2).sum())
                product, length = product + float((added * held).sum()), length + square
                noise += float(held.var()) * square
    certain = length > 0 and abs(product / length - 1) < 0.2 and product > 8 * noise**0.5
    return product / length if certain else None


def _untie(model: nn.Module, adapter: Iterable[str]) -> None:
    """Give each module a weight of its own where several share one, and the adapter has something for one of them.

    A whole output layer that the adapter brings would be the input embedding's too. adapter: its weights' names.
    """
    shared: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        shared.setdefault(parameter, []).append(name)
    modules = {name.removeprefix("base_model.model.") for name in adapter}
    for parameter, names in shared.items():
        if any(name.startswith(f"{full_name.rpartition('.')[0]}.") for full_name in names for name in modules):
            for path, _, name in (full_name.rpartition(".") for full_name in names[1:]):
                setattr(model.get_submodule(path), name, nn.Parameter(parameter.detach().clone(), requires_grad=False))
