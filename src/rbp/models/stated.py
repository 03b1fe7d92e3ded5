"""Compare the configuration that transformers made with the file that it was made from."""

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from rbp.errors import DataError

# fields of config.json that change no logit of a model that reads: of training, generation, and older programs
_NOTES = re.compile(
    r"_.*|.*dropout.*|.*pdrop.*|architectures|.*dtype|n_ctx|prefix|rope_(theta|scaling)|summary_.*|task_specific_params|"
    r"tokenizer_class|quantization_config|pruned_heads|transformers.*|.*gradient_checkpointing.*|initializer.*|output_.*|"
    r"pretraining_tp|use_return_dict|is_llama_config|rotary_(pct|emb_base)|seq_length|"
    r".*_(fusion|in_fp32)|skip_bias_add.*|offset_alibi"
)


def unused_config_fields(raw: dict[str, Any], config: Any, code: str = "") -> list[str]:
    """List the fields of a configuration file that neither its class nor its model's code has, but for notes."""
    from transformers import GenerationConfig, PreTrainedConfig
    from transformers.modeling_rope_utils import RopeParameters

    default = type(config)().to_dict()
    used = {*default, *config.attribute_map, *GenerationConfig().to_dict()}  # type: ignore[no-untyped-call]
    used |= {*re.findall(r"\w+", code)}
    left = [name for name, value in raw.items() if value and name not in used and not _NOTES.fullmatch(name)]
    for name, value in raw.items():
        if isinstance(inner := getattr(config, name, None), PreTrainedConfig) and isinstance(value, dict):
            left += [f"{name}.{field}" for field in unused_config_fields(value, inner, code)]
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    settings = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    names = {name for setting in settings for name, value in setting.items() if value and not isinstance(value, dict)}
    names -= {*RopeParameters.__annotations__, *(default.get("rope_parameters") or {}), "type", "mrope_interleaved"}
    return sorted(left + [f"rope_parameters.{name}" for name in names])


# fields that a version of transformers writes in its own way: their values say nothing of the other's
_REWRITTEN = re.compile(
    r"_.*|.*dtype|architectures|model_type|transformers_version|quantization_config|id2label|label2id|"
    r"rope_(theta|scaling|parameters)|is_encoder_decoder|"
    r"rotary_(pct|emb_base)|partial_rotary_factor|rope_local_base_freq|use_cache|gradient_checkpointing|"
    r"output_(attentions|hidden_states)|return_dict|use_return_dict|pruned_heads|.*token_id"
)
_OLD = {"rotary_pct": "partial_rotary_factor", "rotary_emb_base": "rope_theta"}  # as rope_parameters has them


def must_be_as_stated(raw: dict[str, Any], config: Any, name: str) -> None:
    """Raise DataError if a configuration differs from the file that it was made from: a version reads it otherwise."""
    for field, stated, made in read_differently(raw, config):
        saved, here = raw.get("transformers_version", "an unknown version"), version("transformers")
        fault = f"config.json says {field} {stated}, and transformers {here} reads {made} (it was saved by {saved})"
        raise DataError(fault, name, f"Install transformers {saved}, or a later one, or correct that field.")


def read_differently(raw: dict[str, Any], config: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the fields of a configuration file that a configuration has otherwise: name, stated and made value.

    Rotary settings are compared under their new names, wherever the file has them.
    """
    made = config.to_dict()
    yield from _differing(raw, {**made, **{old: made[new] for old, new in config.attribute_map.items() if new in made}})
    nested = [
        (name, raw[name], getattr(config, name)) for name in config.sub_configs if isinstance(raw.get(name), dict)
    ]
    for place, within, part in [("", raw, config), *((f"{name}.", within, part) for name, within, part in nested)]:
        for field, stated, value in _rotary_differing(within, getattr(part, "rope_parameters", None) or {}):
            yield place + field, stated, value


def _differing(raw: dict[str, Any], made: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name, stated in raw.items():
        if name not in made or stated is None or _REWRITTEN.fullmatch(name):  # for null there may be a default
            continue
        if isinstance(stated, dict) and isinstance(made[name], dict):
            inner = {str(key): value for key, value in made[name].items()}
            yield from ((f"{name}.{field}", *pair) for field, *pair in _differing(stated, inner))
        elif _plain(stated) != _plain(made[name]):
            yield name, stated, made[name]


def _rotary_differing(raw: dict[str, Any], made: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Compare rotary settings; where each kind of layer has its own, a value must be that of one of them."""
    within = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    by_kind = [setting for setting in made.values() if isinstance(setting, dict)] or [made]
    outside = {name: raw[name] for name in ("rope_theta", "partial_rotary_factor", *_OLD) if name in raw}
    for name, stated in {**outside, **within}.items():
        if isinstance(stated, dict):  # of one kind of layer
            yield from _rotary_differing({"rope_parameters": stated}, made.get(name) or {})
            continue
        new = {"type": "rope_type", **_OLD}.get(name, name)
        values = [setting[new] for setting in by_kind if new in setting]
        if stated is not None and values and _plain(stated) not in map(_plain, values):
            yield f"rope_parameters.{name}", stated, values[0]


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, but for the kinds of sequences and numbers."""
    if isinstance(value, dict) and set(value) == {"__float__"}:
        return float(value["__float__"])
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value
