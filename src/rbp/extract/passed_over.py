"""What a configuration file says, and the model that transformers builds of it does not use."""

import re
from typing import Any

# fields of config.json that change no logit of a model that reads: of training, generation, and older programs
_NOTES = re.compile(
    r"_.*|.*dropout.*|.*pdrop.*|architectures|.*dtype|n_ctx|prefix|rope_(theta|scaling)|summary_.*|task_specific_params|"
    r"tokenizer_class|quantization_config|pruned_heads|transformers.*|.*gradient_checkpointing.*|initializer.*|output_.*|"
    r"pretraining_tp|use_return_dict|is_llama_config|rotary_(pct|emb_base)|seq_length|"
    r".*_(fusion|in_fp32)|skip_bias_add.*|offset_alibi"
)


def passed_over(raw: dict[str, Any], config: Any, code: str = "") -> list[str]:
    """List the fields of a configuration file that neither its class nor its model's code has, but for notes."""
    from transformers import GenerationConfig, PreTrainedConfig
    from transformers.modeling_rope_utils import RopeParameters

    default = type(config)().to_dict()
    known = {*default, *config.attribute_map, *GenerationConfig().to_dict()}  # type: ignore[no-untyped-call]
    known |= {*re.findall(r"\w+", code)}
    left = [name for name, value in raw.items() if value and name not in known and not _NOTES.fullmatch(name)]
    for name, value in raw.items():
        if isinstance(inner := getattr(config, name, None), PreTrainedConfig) and isinstance(value, dict):
            left += [f"{name}.{each}" for each in passed_over(value, inner, code)]
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    each = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    names = {name for one in each for name, value in one.items() if value and not isinstance(value, dict)}
    names -= {*RopeParameters.__annotations__, *(default.get("rope_parameters") or {}), "type", "mrope_interleaved"}
    return sorted(left + [f"rope_parameters.{name}" for name in names])
