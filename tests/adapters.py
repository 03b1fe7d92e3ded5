"""Adapters of every kind that peft has, on a tiny Llama: what a folder gives, against peft's own forward pass."""

from pathlib import Path
from typing import Any, NamedTuple

import torch
from tiny import load, save_model
from transformers import AutoModelForCausalLM

from rbp.errors import RbpError
from rbp.extract.extraction import quiet
from rbp.models.sizes import non_embedding_params

TARGETS = ["q_proj", "v_proj"]
#: of kinds that have these fields
COMMON = {"target_modules": TARGETS, "r": 2, "num_virtual_tokens": 4, "n_frequency": 8, "task_type": "CAUSAL_LM"}
SETTINGS: dict[str, dict[str, Any]] = {  # of kinds that need others
    "ADALORA": {"total_step": 10, "init_r": 2, "target_r": 2},
    "ADAPTION_PROMPT": {"adapter_len": 4, "adapter_layers": 1, "target_modules": None},
    "C3A": {"block_size": 8},
    "CPT": {"cpt_token_ids": [1, 2], "cpt_mask": [1, 1], "cpt_tokens_type_mask": [1, 1]},
    "IA3": {"target_modules": [*TARGETS, "down_proj"], "feedforward_modules": ["down_proj"]},
    "LN_TUNING": {"target_modules": ["input_layernorm"]},
    "OFT": {"oft_block_size": 4, "r": 0},
    "P_TUNING": {"encoder_hidden_size": 16},
    "ROAD": {"group_size": 8},
    "SHIRA": {"r": 2},
    "TRAINABLE_TOKENS": {"token_indices": [7, 80], "target_modules": ["embed_tokens"]},
    "VBLORA": {"num_vectors": 8, "vector_length": 16},
    "VERA": {"r": 4},
}
# variants of LoRA: peft's settings
VARIANTS: dict[str, dict[str, Any]] = {
    "DoRA": {"use_dora": True},
    "rank-stabilized, biases": {"use_rslora": True, "bias": "lora_only"},
    "layer_replication": {"layer_replication": [[0, 2], [1, 2]]},
    "whole head": {"modules_to_save": ["lm_head"]},
    "whole embedding": {"modules_to_save": ["embed_tokens"]},
    "on the head": {"target_modules": ["lm_head", "q_proj"]},
    "on the embedding": {"target_modules": ["embed_tokens", "q_proj"]},
    "some tokens": {"trainable_token_indices": [7, 80]},
}


class Found(NamedTuple):
    """What became of an adapter, a GGUF file or a tokenizer.

    outcome: "exact", "wrong", "refused" or "not built"; reason: of one that is not exact.
    """

    kind: str
    outcome: str
    reason: str = ""


def kinds() -> list[str]:
    import peft

    return [*(kind.name for kind in peft.PeftType), *VARIANTS]


def save_adapter(base: Path, config: Any, folder: Path, **save: Any) -> Any:
    """Save an adapter of the model in `base`, all of whose weights have moved; gives peft's own model."""
    import peft

    torch.manual_seed(5)
    net = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = peft.get_peft_model(net, config).eval()
    moved = [parameter for parameter in model.parameters() if parameter.requires_grad and parameter.is_floating_point()]
    moved += [model.get_input_embeddings().weight] if save.get("save_embedding_layers") else []
    with torch.no_grad():
        for parameter in moved:
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder, **save)
    return model


def adapter(kind: str, folder: Path) -> Any:
    """Save an adapter of a kind as `folder`/adapter; gives peft's own model."""
    import peft
    from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

    name = "LORA" if kind in VARIANTS else kind
    options = COMMON | SETTINGS.get(name, {}) | VARIANTS.get(kind, {})
    config_class = PEFT_TYPE_TO_CONFIG_MAPPING[peft.PeftType[name]]
    fields = config_class.__dataclass_fields__
    config = config_class(**{key: value for key, value in options.items() if key in fields})
    return save_adapter(save_model(folder / "base", "llama"), config, folder / "adapter")


def survey_adapter(kind: str, folder: Path) -> Found:
    """What a folder with an adapter of a kind gives: the logits are peft's, bit for bit, and S the base model's."""
    with quiet():
        try:
            own = adapter(kind, folder)
            ids = torch.arange(3, 43)[None]
            with torch.inference_mode():
                expected = own(input_ids=ids).logits
        except Exception as error:  # of any kind: what peft cannot build by these means is no adapter to apply
            return Found(kind, "not built", f"{type(error).__name__}: {error}"[:120])
        try:
            loaded = load(folder / "adapter")
        except RbpError as error:
            return Found(kind, "refused", error.what.replace(str(folder), "…")[:120])
        with torch.inference_mode():
            found = loaded.model(input_ids=ids).logits
        base = load(folder / "base")
        if not torch.equal(found, expected):
            return Found(kind, "wrong", f"logits differ by {(found - expected).abs().max():.2g}")
        if loaded.size != non_embedding_params(own) or (kind != "layer_replication" and loaded.size != base.size):
            return Found(kind, "wrong", f"S {loaded.size}, of the base {base.size}")
    return Found(kind, "exact")
