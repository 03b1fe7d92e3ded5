"""Models in GGUF files: their configuration, with every field and tensor used, known to be irrelevant, or refused.

A field that reaches no model is a wrong model: transformers' own reading passes over many (soft caps, attention scales,
widths of heads). So the configuration is made here, by the meaning that llama.cpp gives to each field, and a field that
no table names is refused. transformers reads the tensors.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from rbp.errors import DataError, first_line, install_extra
from rbp.names import and_more

SUFFIX = ".gguf"
INSTEAD = "Give the model that it was made from, saved as safetensors."
_FREQUENCIES = "rope_freqs.weight"  # by what each rotary frequency is divided, as Llama 3.1 scales its positions
# what says where a file comes from, how it was made, or how to chat
_IRRELEVANT = ("GGUF.", "general.", "quantize.", "tokenizer.chat_template", "imatrix.", "mradermacher.")
_LAYOUTS = {"falcon": "jploski", "llama": "Meta AI original pth"}  # the only one of each; the tensors have it


@dataclass(frozen=True)
class Contents:
    """What a GGUF file says: a configuration of transformers, its tokenizer's fields, and its quantization.

    config: whose class transformers knows; tokenizer: the fields of the tokenizer, without "tokenizer."; frequencies:
    by what rotary frequencies are divided, [d / 2], if they are; quantization: how most numbers of its matrices are
    stored, as "Q4_0" or "F32".
    """

    config: Any
    tokenizer: dict[str, Any]
    frequencies: torch.Tensor | None
    quantization: str


_USUAL = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
}


@dataclass(frozen=True)
class _Architecture:
    """The map from the fields of one architecture to a configuration of transformers.

    kind: transformers' model type; norm: the field and the attribute of the norms' epsilon; fields: further ones, by
    field; optional: likewise, where a file may lack them; rotary: whether all of a head is rotated, a part, or nothing,
    or `more` says it; heads: whether the width of a head is free; fixed: what llama.cpp computes without any field;
    must: values that alone it computes; more: what takes further fields.
    """

    kind: str
    norm: tuple[str, str] = ("attention.layer_norm_rms_epsilon", "rms_norm_eps")
    fields: dict[str, str] = field(default_factory=lambda: _USUAL)
    optional: dict[str, str] = field(default_factory=dict)
    rotary: str = "all"
    heads: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)
    must: dict[str, Any] = field(default_factory=dict)
    more: "Callable[[_Fields, dict[str, Any]], None] | None" = None


class _Fields:
    """The fields of a file's architecture, of which each is to be taken once."""

    def __init__(self, fields: dict[str, Any], architecture: str, name: str, tensors: dict[str, tuple[int, ...]]):
        self.architecture, self.name, self.tensors = architecture, name, tensors
        start = f"{architecture}."
        self.left = {key.removeprefix(start): value for key, value in fields.items() if key.startswith(start)}

    def take(self, key: str, *default: Any) -> Any:
        """Take the value of a field, or the default. Raises DataError if there is neither, or one for each layer."""
        if key not in self.left:
            if default:
                return default[0]
            raise self.refused(f"the GGUF file lacks the field {self.architecture}.{key}")
        value = self.left.pop(key)
        if isinstance(value, list) and len(set(value)) == 1:
            value = value[0]
        if isinstance(value, list) and "sliding" not in key:
            raise self.refused(f"{self.architecture}.{key} differs by layer, which its configuration cannot say")
        return value

    def need(self, key: str, *values: Any) -> None:
        """Raise DataError if a field has a value beside these."""
        if (value := self.take(key, values[0])) not in values:
            raise self.refused(f"{self.architecture}.{key} is {value}, which transformers' {self.architecture} is not")

    def refused(self, fault: str) -> DataError:
        return DataError(fault, self.name, INSTEAD)


def _gemma(pattern: int, published: dict[int, int]) -> "Callable[[_Fields, dict[str, Any]], None]":
    """Make `more` of Gemma: one of `pattern` layers has full attention; published: attention scales by layers."""

    def more(fields: _Fields, values: dict[str, Any]) -> None:
        layers, period = values["num_hidden_layers"], fields.take("attention.sliding_window_pattern", pattern)
        slides = period if isinstance(period, list) else [bool((i + 1) % period) for i in range(layers)]
        values["layer_types"] = ["sliding_attention" if slide else "full_attention" for slide in slides]
        values["sliding_window"] = fields.take("attention.sliding_window")
        scale = fields.take("attention.scale", None)
        # most files do not say the scale, and llama.cpp knows it by the number of layers
        width = published.get(layers) if scale is None else 1 / scale**2
        if width == 0:  # of a 27B model: that of the heads, were they not free
            width = values["hidden_size"] / values["num_attention_heads"]
        if width is None:
            fault = (
                f"the GGUF file does not say how attention is scaled ({fields.architecture}.attention.scale), and no"
            )
            raise fields.refused(f"{fault} published model has {layers} layers")
        values["query_pre_attn_scalar"] = round(width)
        if abs(width - round(width)) > 1e-3:
            raise fields.refused(f"{fields.architecture}.attention.scale is not the root of a whole number's inverse")
        for key, default in (("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0)):
            values[key] = fields.take(key, default if fields.architecture == "gemma2" else None)
        if fields.architecture == "gemma3":
            local = {"rope_type": "default", "rope_theta": fields.take("rope.freq_base_swa", 10_000.0)}
            values["rope_parameters"] = {"full_attention": values["rope_parameters"], "sliding_attention": local}

    return more


def _stablelm(fields: _Fields, values: dict[str, Any]) -> None:
    parallel = not any("ffn_norm" in name for name in fields.tensors)
    if fields.take("use_parallel_residual", parallel) != parallel:
        raise fields.refused("stablelm.use_parallel_residual contradicts the tensors of the GGUF file")
    values["use_parallel_residual"] = parallel
    values["use_qkv_bias"] = "blk.0.attn_q.bias" in fields.tensors
    values["qk_layernorm"] = "blk.0.attn_q_norm.weight" in fields.tensors


def _experts(fields: _Fields, values: dict[str, Any]) -> None:
    values["num_experts_per_tok"], values["num_experts"] = fields.take("expert_used_count"), fields.take("expert_count")
    *_, width = fields.tensors["blk.0.ffn_down_exps.weight"]
    fields.need("expert_feed_forward_length", width)
    values["moe_intermediate_size"] = width
    if shared := fields.tensors.get("blk.0.ffn_down_shexp.weight"):
        fields.need("expert_shared_feed_forward_length", shared[-1])
        values["shared_expert_intermediate_size"] = shared[-1]


def _biases(fields: _Fields, values: dict[str, Any]) -> None:
    values["attention_bias"] = "blk.0.attn_output.bias" in fields.tensors
    values["mlp_bias"] = "blk.0.ffn_up.bias" in fields.tensors


def _falcon(fields: _Fields, values: dict[str, Any]) -> None:
    if (groups := values.pop("num_key_value_heads")) != 1:
        fault = f"falcon.attention.head_count_kv is {groups}, whose matrices transformers leaves in the file's order"
        raise fields.refused(fault)


def _lfm2(fields: _Fields, values: dict[str, Any]) -> None:
    groups = fields.left.pop("attention.head_count_kv")  # of each layer, and none of one that convolves
    values["layer_types"] = ["full_attention" if group else "conv" for group in groups]
    values["num_key_value_heads"] = max(groups)
    values["conv_bias"] = "blk.0.shortconv.in_proj.bias" in fields.tensors
    values["rope_parameters"] = {"rope_type": "default", "rope_theta": _short(fields.take("rope.freq_base"))}


_EPSILON = "attention.layer_norm_epsilon"
_GPT = {"embedding_length": "hidden_size", "block_count": "n_layer", "attention.head_count": "n_head"}
ARCHITECTURES = {
    "llama": _Architecture("llama", heads=True, more=_biases),
    "qwen2": _Architecture("qwen2"),
    "qwen2moe": _Architecture("qwen2_moe", fixed={"norm_topk_prob": False}, more=_experts),
    "qwen3": _Architecture("qwen3", heads=True),
    "qwen3moe": _Architecture("qwen3_moe", heads=True, fixed={"norm_topk_prob": True}, more=_experts),
    "gemma2": _Architecture("gemma2", heads=True, more=_gemma(2, {26: 256, 42: 256, 46: 0})),
    "gemma3": _Architecture("gemma3_text", heads=True, more=_gemma(6, {18: 256, 26: 256, 34: 256, 48: 256, 62: 0})),
    "phi3": _Architecture("phi3", rotary="part", optional={"attention.sliding_window": "sliding_window"}),
    "starcoder2": _Architecture("starcoder2", (_EPSILON, "norm_epsilon")),
    "stablelm": _Architecture("stablelm", (_EPSILON, "layer_norm_eps"), rotary="part", more=_stablelm),
    "nemotron": _Architecture("nemotron", (_EPSILON, "norm_eps"), rotary="part", heads=True, more=_biases),
    "falcon": _Architecture(
        "falcon",
        (_EPSILON, "layer_norm_epsilon"),
        _USUAL | {"feed_forward_length": "ffn_hidden_size"},
        fixed={"multi_query": True, "parallel_attn": True, "new_decoder_architecture": False, "alibi": False},
        more=_falcon,
    ),
    "lfm2": _Architecture(
        "lfm2",
        ("attention.layer_norm_rms_epsilon", "norm_eps"),
        rotary="own",
        fixed={"block_auto_adjust_ff_dim": False},
        optional={"shortconv.l_cache": "conv_L_cache"},
        more=_lfm2,
    ),
    "gpt2": _Architecture(
        "gpt2",
        (_EPSILON, "layer_norm_epsilon"),
        {
            "context_length": "n_positions",
            "embedding_length": "n_embd",
            "block_count": "n_layer",
            "feed_forward_length": "n_inner",
            "attention.head_count": "n_head",
        },
        rotary="none",
    ),
    "bloom": _Architecture("bloom", (_EPSILON, "layer_norm_epsilon"), _GPT, rotary="none"),
    "mamba": _Architecture(
        "mamba",
        ("attention.layer_norm_rms_epsilon", "layer_norm_epsilon"),
        {
            "embedding_length": "hidden_size",
            "block_count": "num_hidden_layers",
            "ssm.conv_kernel": "conv_kernel",
            "ssm.inner_size": "intermediate_size",
            "ssm.state_size": "state_size",
            "ssm.time_step_rank": "time_step_rank",
        },
        rotary="none",
        must={"ssm.dt_b_c_rms": False, "feed_forward_length": 0, "attention.head_count": 0},
    ),
}


@contextmanager
def alone(file: Path) -> Iterator[dict[str, Any]]:
    """Give arguments by which transformers reads this file and nothing beside it, without a progress bar."""
    reading: Any = import_module("transformers.modeling_gguf_pytorch_utils")  # late: slow to import
    bar = reading.tqdm
    reading.tqdm = partial(bar, disable=True)  # no setting of transformers reaches it
    try:
        with TemporaryDirectory() as empty:
            yield {"pretrained_model_name_or_path": empty, "gguf_file": str(file.absolute())}
    finally:
        reading.tqdm = bar


def read_contents(file: Path, name: str) -> Contents:
    """Read what a file says of its model. name: what errors name.

    Raises DataError if gguf is not installed, and for a file that is no whole one, or has an architecture, a field, a
    tensor or a quantization that would not reach the model as it is meant.
    """
    from transformers import AutoConfig

    try:
        import gguf
    except ImportError:
        fault = "this is a GGUF file, which gguf has to read, and gguf is not installed"
        remedy = f"{install_extra('gguf')}, or give the model that it was made from, saved as safetensors."
        raise DataError(fault, name, remedy) from None
    try:
        reader = _whole_reader(file)
        fields = {key: entry.contents() for key, entry in reader.fields.items()}
        tensors = {tensor.name: tuple(int(n) for n in reversed(tensor.shape)) for tensor in reader.tensors}
    except Exception as error:  # of many kinds: no GGUF file, cut short, a value of no kind
        raise DataError(f"cannot read the GGUF file: {first_line(error)}", name, "Copy it again.") from None
    architecture = str(fields.get("general.architecture"))
    if fields.get("general.type", "model") != "model" or fields.get("split.count", 0) > 1:
        fault = f"the GGUF file is not a whole model (general.type {fields.get('general.type')}, split.count)"
        raise DataError(fault, name, "Join its parts with llama-gguf-split --merge, or give the model's own file.")
    if architecture not in ARCHITECTURES:
        fault = f"models of the architecture {architecture} are not read from GGUF files"
        raise DataError(fault, name, f"{INSTEAD} There is: {', '.join(ARCHITECTURES)}.")
    kinds, unknown = Counter[str](), list[str]()
    for tensor in reader.tensors:
        kind = tensor.tensor_type
        try:
            gguf.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
        except NotImplementedError:
            unknown.append(f"{tensor.name} ({kind.name})")
        if len(tensor.shape) > 1:
            kinds[kind.name] += int(tensor.n_elements)
    if unknown:
        raise DataError(f"gguf does not dequantize {and_more(unknown)}", name, INSTEAD)
    if not kinds or "token_embd.weight" not in tensors:
        raise DataError("the GGUF file holds no weights of a language model", name, INSTEAD)
    architecture_fields = _Fields(fields, architecture, name, tensors)
    values = _values(architecture_fields, ARCHITECTURES[architecture])
    others = [key for key in fields if not key.startswith((*_IRRELEVANT, "tokenizer.", "split.", f"{architecture}."))]
    if left := sorted([f"{architecture}.{key}" for key in architecture_fields.left] + others):
        raise DataError(f"it is not known what {and_more(left)} of the GGUF file means", name, INSTEAD)
    for role in ("bos", "eos", "padding"):
        values[f"{'pad' if role == 'padding' else role}_token_id"] = fields.get(f"tokenizer.ggml.{role}_token_id")
    try:
        config = AutoConfig.for_model(ARCHITECTURES[architecture].kind, **values)
    except Exception as error:  # of a value of another type, or one that cannot be
        raise DataError(
            f"the fields of the GGUF file fit no {architecture}: {first_line(error)}", name, INSTEAD
        ) from None
    tokenizer = {key.removeprefix("tokenizer."): value for key, value in fields.items() if key.startswith("tokenizer.")}
    scaled = [tensor.data for tensor in reader.tensors if tensor.name == _FREQUENCIES]
    factors = torch.tensor(np.array(scaled[0])) if scaled else None
    return Contents(config, tokenizer, factors, kinds.most_common(1)[0][0])


def _whole_reader(file: Path) -> Any:
    """Read a GGUF file. Raises ValueError where it ends before what it says that it holds, however much that is."""
    from gguf import GGUFReader

    class Reader(GGUFReader):
        def _get(self, offset: int, dtype: Any, count: int = 1, *order: Any, **options: Any) -> Any:
            if offset + np.dtype(dtype).itemsize * int(count) > len(self.data):
                last = next(reversed(getattr(self, "fields", {})), "its first four bytes")
                place = "the values of its tensors" if hasattr(self, "data_offset") else f"what follows {last}"
                raise ValueError(f"it is cut short: it ends in {place}")
            return super()._get(offset, dtype, count, *order, **options)

    return Reader(file)


MOST_BLOCKS = 1_000  # of any model


def _values(fields: _Fields, which: _Architecture) -> dict[str, Any]:
    """Return the configuration's values. What is left in `fields` afterwards is not accounted for."""
    values = {"vocab_size": fields.tensors["token_embd.weight"][0], **which.fixed}
    values["tie_word_embeddings"] = "output.weight" not in fields.tensors
    blocks = len({name.split(".")[1] for name in fields.tensors if name.startswith("blk.")})
    stated = fields.left.get("block_count", blocks)
    if stated != blocks and (blocks or stated > MOST_BLOCKS):  # a file of a vocabulary alone has none
        raise fields.refused(f"{fields.architecture}.block_count is {stated}, and the tensors are of {blocks} blocks")
    fields.left.pop("vocab_size", None)  # the rows of the embedding count
    for key, attribute in which.fields.items():
        values[attribute] = fields.take(key)
    for key, attribute in which.optional.items():
        if key in fields.left:
            values[attribute] = fields.take(key)
    values[which.norm[1]] = _short(fields.take(which.norm[0]))
    for key, value in which.must.items():
        fields.need(key, value)
    fields.need("attention.causal", True)
    fields.need("tensor_data_layout", _LAYOUTS.get(fields.architecture))
    if which.rotary == "none":
        heads = values.get("n_head", 0)
        fields.need("attention.head_count_kv", heads)
        fields.left.pop("context_length", None)  # of a model without position embeddings
        if "n_inner" not in values and heads:
            fields.need("feed_forward_length", 4 * values["hidden_size"])
    elif which.rotary != "own":
        _attention(fields, which, values)
    if which.more is not None:
        which.more(fields, values)
    return values


def _attention(fields: _Fields, which: _Architecture, values: dict[str, Any]) -> None:
    """Set heads and rotary positions."""
    heads = values["num_attention_heads"]
    if not isinstance(heads, int) or heads < 1:
        raise fields.refused(f"{fields.architecture}.attention.head_count is {heads}")
    values["num_key_value_heads"] = fields.take("attention.head_count_kv", heads)
    width = fields.take("attention.key_length", values["hidden_size"] // heads)
    fields.need("attention.value_length", width)
    if which.heads:
        values["head_dim"] = width
    elif width * heads != values["hidden_size"]:
        raise fields.refused(f"{fields.architecture}.attention.key_length is {width}, which transformers cannot set")
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": _short(fields.take("rope.freq_base", 10_000.0))}
    rotated = fields.take("rope.dimension_count", width)
    if which.rotary == "part":
        rope["partial_rotary_factor"] = rotated / width
    elif rotated != width:
        raise fields.refused(f"{fields.architecture}.rope.dimension_count is {rotated}, and heads are {width} wide")
    kind = fields.take("rope.scaling.type", "none")
    if kind == "linear":
        rope |= {"rope_type": "linear", "factor": _short(fields.take("rope.scaling.factor"))}
    if kind in ("none", "linear"):
        fields.left.pop("rope.scaling.original_context_length", None)  # of a kind of scaling that is not used
        fields.need("rope.scaling.attn_factor", 1.0)
    else:  # and its parameters are named with it
        fields.left["rope.scaling.type"] = kind
    values["rope_parameters"] = rope
    if tables := sorted(tensor for tensor in fields.tensors if tensor.startswith("rope_") and tensor != _FREQUENCIES):
        raise fields.refused(f"positions are scaled by {and_more(tables)}, of which not all is in the GGUF file")
    if _FREQUENCIES in fields.tensors and which.kind != "llama":
        raise fields.refused(f"positions are scaled by {_FREQUENCIES}, which {fields.architecture} does not do")


def _short(value: float) -> float:
    """Return the shortest decimal of a float32, as in the configuration that a file was made from."""
    return float(str(np.float32(value)))


def finish(model: Any, contents: Contents, file: Path, name: str) -> None:
    """Scale the model's positions as the file does. Raises DataError unless the model took all numbers of the file.

    transformers passes over tensors that it cannot place. name: what the error names.
    """
    from gguf import GGUFReader

    tensors = {tensor.name: int(tensor.n_elements) for tensor in GGUFReader(file).tensors}
    if contents.frequencies is not None:
        tensors.pop(_FREQUENCIES)
        rotary = model.model.rotary_emb
        if rotary.inv_freq.shape != contents.frequencies.shape:
            raise DataError(f"{_FREQUENCIES} is not as long as half a head", name, INSTEAD)
        rotary.inv_freq /= contents.frequencies
        rotary.original_inv_freq /= contents.frequencies
    taken = {values.data_ptr(): values.numel() for values in model.state_dict().values()}  # a shared one counts once
    if sum(taken.values()) != (stored := sum(tensors.values())):
        fault = f"transformers takes {sum(taken.values()):,} of the {stored:,} numbers in the GGUF file"
        raise DataError(fault, name, INSTEAD)
