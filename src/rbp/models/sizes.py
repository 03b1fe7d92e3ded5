"""Compare the sizes in a configuration with the weights, before anything is built of that size."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rbp.errors import DataError

_LAYERS = re.compile("num_hidden_layers|num_layers|n_layers?")
_WIDTHS = re.compile(
    "vocab_size|hidden_size|n_embd|d_model|embed_dim|head_dim|n_heads?|num_(attention_|key_value_)?heads"
)
_PACKED = 4  # sides may be this many times as long as they look
# of which there may be none
_OTHERS = re.compile("(moe_)?intermediate_size|n_inner|d_ff|ffn_(dim|hidden_size)|word_embed_proj_dim|.*experts")


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
            what = f"{field} is {value:,}, and the weights are {len(shapes):,} tensors of at most {longest:,} rows"
            raise DataError(what, f"{name}, config.json", "One of the two is another model's, or was edited.")


def _whole_numbers(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield the whole numbers of the text model's configuration, with their fields."""
    text = config.get("text_config")
    for field, value in (text if isinstance(text, dict) else config).items():
        if isinstance(value, int) and not isinstance(value, bool):
            yield ("text_config." if isinstance(text, dict) else "") + field, value
