"""Count S of a model; compare the sizes in a configuration with the weights, before anything is built of that size."""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from rbp.errors import DataError
from rbp.models import adapters

_LAYERS = re.compile("num_hidden_layers|num_layers|n_layers?")
_WIDTHS = re.compile(
    "vocab_size|hidden_size|n_embd|d_model|embed_dim|head_dim|n_heads?|num_(attention_|key_value_)?heads"
)
_PACKED = 4  # sides may be this many times as long as they look
# of which there may be none
_OTHERS = re.compile("(moe_)?intermediate_size|n_inner|d_ff|ffn_(dim|hidden_size)|word_embed_proj_dim|.*experts")


def non_embedding_params(model: nn.Module) -> int:
    """Count S: all parameters but the input, output and learned position embeddings (the paper's section 3.2).

    A weight that is shared (a tied output layer) counts once, and not at all where it is an embedding. Layers
    that bring embeddings to the width of the model, as in OPT-350m, are no embeddings. Adapters count as if they were
    merged, and the weights of a quantized model as before that. Works on the meta device. Gives the authors'
    `non_embedding_params` for their 24 models.
    """
    config = getattr(model, "config", None)
    packed = config is not None and not all(map(torch.is_floating_point, model.parameters()))
    if packed or getattr(config, "quantization_config", None) is not None:
        model = _before_quantization(model)
    embeddings: list[nn.Module] = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    output = getattr(model, "get_output_embeddings", lambda: None)()
    if isinstance(output, nn.Module):
        embeddings.append(output)
    left_out = {id(parameter) for module in embeddings for parameter in module.parameters()}
    weights = dict(adapters.weights_as_merged(model))
    return sum(parameter.numel() for parameter in weights.values() if id(parameter) not in left_out)


def _before_quantization(model: Any) -> nn.Module:
    """Build the model as its configuration has it, without weights: a quantizer packs several numbers into one."""
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(model.config)
    vars(config).pop("quantization_config", None)
    with torch.device("meta"):
        built: nn.Module = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    return built


def must_be_of_size(config: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], name: str) -> None:
    """Raise DataError for a size in config.json that is not positive, or that weights of these shapes cannot have.

    A model has no more layers than tensors, and not far more of anything than tensors, or than the longest is long.
    Without shapes only the sign is looked at. What differs by less is found when the weights are loaded. name: what
    errors name.
    """
    longest = max((side for shape in shapes.values() for side in shape), default=0)
    for field, value in _whole_numbers(config):
        last = field.rpartition(".")[2]
        layers, width = _LAYERS.fullmatch(last), _WIDTHS.fullmatch(last)
        if (layers or width) and value < 1:
            raise DataError(f"{field} is {value}", f"{name}, config.json", "It must be at least 1: correct it.")
        most = len(shapes) if layers else _PACKED * max(longest, len(shapes))
        if shapes and value > most and (layers or width or _OTHERS.fullmatch(last)):
            fault = f"{field} is {value:,}, and the weights are {len(shapes):,} tensors of at most {longest:,} rows"
            raise DataError(fault, f"{name}, config.json", "One of the two is another model's, or was edited.")


def _whole_numbers(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the whole numbers of the text model's configuration, with their fields."""
    text = config.get("text_config")
    for field, value in (text if isinstance(text, dict) else config).items():
        if isinstance(value, int) and not isinstance(value, bool):
            yield ("text_config." if isinstance(text, dict) else "") + field, value
