"""GGUF files of tiny models, written as llama.cpp's converter writes them."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny import GROUPED, SHAPE, load, save_model

WIDTH, HEADS, GROUPS, LAYERS, INNER, VOCAB = 64, 4, 2, 3, 96, 320  # some of them as in `tiny`


@dataclass
class Case:
    """An architecture: transformers' model type, settings of its configuration, and fields of the file.

    norm: names of what is added to a variance, in both; change: what the converter does to a tensor, by parts of its
    name; alone: these settings and fields are all there are.
    """

    kind: str
    settings: dict[str, Any]
    fields: dict[str, Any]
    norm: tuple[str, str] = ("attention.layer_norm_rms_epsilon", "rms_norm_eps")
    change: dict[str, Any] = field(default_factory=dict)
    alone: bool = False


def permuted(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key matrix in the order that llama.cpp's rotary positions want for Llama."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def bloomed(values: np.ndarray) -> np.ndarray:
    """Queries, keys and values of BLOOM one after the other, not by heads."""
    by_heads = values.reshape(HEADS, 3, -1, *values.shape[1:])
    return by_heads.swapaxes(0, 1).reshape(values.shape)


ROPE = {"rope_type": "default", "rope_theta": 700.0}
COMMON = {**GROUPED, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "intermediate_size": INNER,
          "max_position_embeddings": 128, "rope_parameters": ROPE}  # fmt: skip
ALONE = {"context_length": 128, "embedding_length": WIDTH, "block_count": LAYERS, "feed_forward_length": INNER,
         "attention.head_count": HEADS}  # fmt: skip
STATED = {**ALONE, "attention.head_count_kv": GROUPS, "rope.freq_base": 700.0}
WIDE = {"attention.key_length": 24, "attention.value_length": 24}
LN = "attention.layer_norm_epsilon"
LLAMA = {"attn_q.weight": lambda w: permuted(w, HEADS), "attn_k.weight": lambda w: permuted(w, GROUPS)}
ONE_MORE = {"norm.weight": lambda w: w + 1}
PART = {**ROPE, "partial_rotary_factor": 0.5}
GEMMA = {"head_dim": 24, "sliding_window": 8, "query_pre_attn_scalar": 144}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
EXPERT_FIELDS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32}
CASES = {
    "llama": Case("llama", {"head_dim": 16}, {"rope.dimension_count": 16}, change=LLAMA),
    "llama, biases": Case("llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}, {},
                          change=LLAMA | {"attn_q.bias": lambda b: permuted(b[:, None], HEADS)[:, 0],
                                          "attn_k.bias": lambda b: permuted(b[:, None], GROUPS)[:, 0]}),
    "llama, linear": Case("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 700.0, "factor": 4.0}},
                          {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, change=LLAMA),
    "qwen2": Case("qwen2", {}, {}),
    "qwen3": Case("qwen3", {"head_dim": 24}, WIDE),
    "qwen2moe": Case("qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 48, "norm_topk_prob": False},
                     {**EXPERT_FIELDS, "expert_shared_feed_forward_length": 48},
                     change={"ffn_gate_inp_shexp.weight": lambda w: w[0]}),
    "qwen3moe": Case("qwen3_moe", {**EXPERTS, "norm_topk_prob": True, "head_dim": 24}, {**EXPERT_FIELDS, **WIDE}),
    "gemma2": Case(
        "gemma2",
        {**GEMMA, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
        {**WIDE, "attention.sliding_window": 8, "attention.scale": 1 / 12, "attn_logit_softcapping": 2.0,
         "final_logit_softcapping": 3.0},
        change=ONE_MORE,
    ),
    "gemma3": Case(
        "gemma3_text",
        {**GEMMA, "rope_parameters": {
            "full_attention": {"rope_type": "linear", "rope_theta": 700.0, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 90.0}},
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        {**WIDE, "attention.sliding_window": 8, "attention.scale": 1 / 12, "rope.freq_base_swa": 90.0,
         "rope.scaling.type": "linear", "rope.scaling.factor": 8.0, "attention.sliding_window_pattern": 2},
        change=ONE_MORE,
    ),
    "phi3": Case("phi3", {"sliding_window": 8, "rope_parameters": PART},
                 {"rope.dimension_count": 8, "attention.sliding_window": 8,
                  "rope.scaling.original_context_length": 128}),
    "starcoder2": Case("starcoder2", {}, {}, (LN, "norm_epsilon")),
    "stablelm": Case("stablelm", {"rope_parameters": PART, "use_qkv_bias": True},
                     {"rope.dimension_count": 8}, (LN, "layer_norm_eps")),
    "nemotron": Case("nemotron", {"rope_parameters": PART, "head_dim": 16},
                     {"rope.dimension_count": 8, "rope.scaling.type": "none"}, (LN, "norm_eps"), change=ONE_MORE),
    "falcon": Case("falcon", {"ffn_hidden_size": INNER, "num_kv_heads": 1}, {"attention.head_count_kv": 1,
                   "tensor_data_layout": "jploski"}, (LN, "layer_norm_epsilon")),
    "lfm2": Case(
        "lfm2",
        {"layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3, "block_auto_adjust_ff_dim": False},
        {"attention.head_count_kv": [0, GROUPS, 0], "shortconv.l_cache": 3},
        ("attention.layer_norm_rms_epsilon", "norm_eps"), {"shortconv.conv.weight": lambda w: w[:, 0]},
    ),
    "gpt2": Case(
        "gpt2",
        {"vocab_size": VOCAB, "n_positions": 128, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS,
         "n_inner": INNER}, {}, (LN, "layer_norm_epsilon"),
        {f"{part}.weight": lambda w: w.T for part in ("attn_qkv", "ffn_down", "ffn_up", "attn_output")},
        alone=True,
    ),
    "bloom": Case("bloom", {"vocab_size": VOCAB, "hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS},
                  {"feed_forward_length": 4 * WIDTH, "attention.head_count_kv": HEADS},
                  (LN, "layer_norm_epsilon"), {"attn_qkv": bloomed}, alone=True),
    "mamba": Case("mamba", {**SHAPE, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "state_size": 8,
                            "conv_kernel": 3, "time_step_rank": 5, "expand": 2},
                  {"feed_forward_length": 0, "attention.head_count": 0, "ssm.conv_kernel": 3, "ssm.state_size": 8,
                   "ssm.inner_size": 2 * WIDTH, "ssm.time_step_rank": 5, "ssm.dt_b_c_rms": False},
                  ("attention.layer_norm_rms_epsilon", "layer_norm_epsilon"),
                  {"ssm_conv1d.weight": lambda w: w[:, 0], "ssm_a": lambda a: -np.exp(a)}, alone=True),
}  # fmt: skip


def stated(name: str) -> dict[str, Any]:
    case = CASES[name]
    return {**(ALONE if case.alone else STATED), **case.fields, case.norm[0]: 0.003}


def save_case(name: str, folder: Path) -> Path:
    """The folder of a random model of a case, with a tokenizer."""
    case = CASES[name]
    fields = {**({} if case.alone else COMMON), **case.settings, case.norm[1]: 0.003}
    return save_model(folder, transformers.AutoConfig.for_model(case.kind, **fields))


def write_case(name, folder, file, kind="F32", more=None, without=(), extra=None, tokens=None):
    """The model in `folder` as a GGUF file, its matrices stored as `kind`; `folder` gets the weights that this leaves.

    more, without: fields that are added, changed or left out; extra: tensors; tokens: fields of the tokenizer.
    """
    case, arch = CASES[name], name.partition(",")[0]
    which = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == arch)
    names = gguf.get_tensor_name_map(which, LAYERS)
    fields = {**stated(name), "vocab_size": VOCAB, **(more or {})}
    writer = begin(file, arch, {key: value for key, value in fields.items() if key not in without}, folder, tokens)
    state = {key: values.numpy() for key, values in load_file(folder / "model.safetensors").items()}
    experts = fused_experts(state)
    for key, weight in {**state, **experts}.items():
        if ".experts." in key and key in state:
            continue
        stem = next((key.removesuffix(end) for end in (".weight", ".bias") if key.endswith(end)), key)
        name = names.get_name(stem) or names.get_name(stem.removeprefix("transformer."))
        place = name + key.removeprefix(stem)
        stored = weight
        for part, change in case.change.items():
            if part in place:
                stored = change(stored)
        large = stored.ndim > 1 and "ssm_conv1d" not in place
        as_ = gguf.GGMLQuantizationType[kind if large else "F32"]
        blocks = gguf.quantize(np.ascontiguousarray(stored, dtype=np.float32), as_)
        writer.add_tensor(place, blocks, raw_dtype=as_)
        if as_.name != "F32":  # of Llama and Qwen 2
            left, heads = gguf.dequantize(blocks, as_), HEADS if "attn_q" in place else GROUPS
            turned = left.reshape(heads, -1, 2, left.shape[1]).swapaxes(1, 2).reshape(left.shape)
            state[key] = turned if stored is not weight else left
    for key, values in (extra or {}).items():
        writer.add_tensor(key, values)
    finish(writer)
    if kind != "F32":
        left = {key: torch.from_numpy(values.copy()) for key, values in state.items()}
        save_file(left, folder / "model.safetensors", {"format": "pt"})
    return file


def own_logits(model: Path) -> torch.Tensor:
    """The logits of drawn tokens, as the model is loaded."""
    torch.manual_seed(0)
    with torch.inference_mode():
        found: torch.Tensor = load(model).model(torch.randint(0, VOCAB, (2, 40))).logits
    return found


def write_bare(folder: Path, file: Path, tokens: dict[str, Any] | None = None) -> Path:
    """A file that has all fields of the case "llama", and no weights but an embedding."""
    writer = begin(file, "llama", stated("llama"), folder, tokens)
    writer.add_tensor("token_embd.weight", np.zeros((VOCAB, 4), np.float32))
    finish(writer)
    return file


def begin(file: Path, arch: str, fields: Any, folder: Path, tokens: dict[str, Any] | None) -> gguf.GGUFWriter:
    """A file with these fields, and those of the tokenizer in `folder`."""
    writer = gguf.GGUFWriter(file, arch)
    for key, value in fields.items():
        put(writer, key if key.startswith("general.") else f"{arch}.{key}", value)
    write_tokenizer(writer, folder, tokens or {})
    return writer


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def put(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    else:
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add[type(value)](key, value)


def fused_experts(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The experts of a mixture as three tensors a layer, as the converter stacks them."""
    found = defaultdict(list)
    for key in sorted(state):  # there are fewer than ten
        if ".experts." in key:
            found[re.sub(r"\.\d+(?=\.\w+_proj)", "", key)].append(state[key])
    return {key: np.stack(experts) for key, experts in found.items()}


def write_tokenizer(writer: gguf.GGUFWriter, folder: Path, fields: dict[str, Any]) -> None:
    """The byte-level tokenizer in `folder`, cut as "gpt-2" unless `fields` say otherwise."""
    raw = json.loads((folder / "tokenizer.json").read_text())
    words = sorted(raw["model"]["vocab"], key=raw["model"]["vocab"].get)
    control = {token["content"] for token in raw["added_tokens"]}
    unused = [f"[PAD{i}]" for i in range(len(words), VOCAB)]
    types = [3 if word in control else 1 for word in words] + [5] * len(unused)
    merges = [" ".join(pair) for pair in raw["model"]["merges"]]
    stated = {"model": "gpt2", "pre": "gpt-2", "tokens": words + unused, "token_type": types, "merges": merges}
    for key, value in {**stated, "bos_token_id": 0, "eos_token_id": 0, **fields}.items():
        if value is not None:
            put(writer, f"tokenizer.ggml.{key}", value)
