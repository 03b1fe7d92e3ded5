"""Every causal architecture that transformers knows, made tiny, and its ranks held against its own logits.

`survey` saves a random model of a family, ranks rows of mixed lengths as an extraction does, padded and not, on one
and several threads, and compares each rank with the logits that transformers itself gives for that row: alone,
unpadded, by a model that has read nothing before. It does so again with output rows of no token that are made huge.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything of Hugging Face is imported

import copy
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tiny import VOCAB, load, save_model
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from rbp.errors import RbpError
from rbp.extract.extraction import quiet
from rbp.extract.forward import Ranker
from rbp.models.load import LanguageModel, looks_at_length
from rbp.texts.protocol import Row, longest_input

FAMILIES = sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
LAYERS, HEADS, WIDTH = 4, 4, 32
LONGEST = 100  # tokens that a model reads: no multiple of 64, so padding must not go beyond
LENGTHS = (LONGEST, 5, 70, 37, 99, 64, 5, 88)  # long and short ones side by side
THREADS = (1, 8)
TOKENS = 300  # what rows are drawn from: the rows of output beyond belong to no token
LARGE = 10_000_000  # parameters of what was not made tiny

# What a whole number becomes by the name of its field: the first pattern that fits.
SMALL: dict[str, int] = {
    r"vocab_size|vocab_size_per_layer_input": VOCAB,
    r"chunk_size_.*": 0,
    r"index_topk": 16,
    r"qk_head_dim": 2 * WIDTH // HEADS,
    r"rotary_dim": WIDTH // HEADS,
    r"(.*_)?(num_)?(global_)?(key_value|kv)_(n_)?heads|kv_n_heads|conf_num_key_value_heads": 2,
    r"(mamba_)?(d|head)_head|(.*_)?head_dim|(.*_)?head_size|d_kv|d_head|mamba_headdim": WIDTH // HEADS,
    r"mamba_n_heads|mamba_num_heads": 2 * HEADS,
    r"n_mamba_heads|n_groups?|mamba_n_groups|topk_group|num_expert_group": 1,
    r"(.*_)?(num_)?heads?|n_head|(.*_)?num_(.*_)?heads": HEADS,
    r"hidden_size|d_model|(n|d)_embd|(.*_)?(embed|emb)_dim|dim|embedding_(size|dim)|word_embed_proj_dim|lru_width|"
    r"hidden_size_global|hidden_size_per_layer_input|pronunciation_embed_dim|.*lora_rank|attention_hidden_size": WIDTH,
    r"(.*_)?(intermediate|ffn|inner|feed_forward|mlp|expert)(_hidden)?_(size|dim)|(.*_)?ffn_dim|d_ff|d_inner|n_inner": 2
    * WIDTH,
    r"(n|num)_(hidden_)?layers?|(num_)?(encoder|decoder)_layers|num_blocks|depth|max_window_layers": LAYERS,
    r"(.*_)?num_experts_per_tok(en)?|(.*_)?top_?k(_experts)?|moe_topk|moe_k": 2,
    r"(.*_)?(num|n)_(local_|routed_|zero_|total_)?experts|(.*_)?expert_num": 4,
    r"(max_)?(.*_)?position_embeddings|n_positions|max_seq_len|n_ctx|seq_length|context_length|max_seq_length|"
    r"max_(source|target|sequence)_(positions|length)": LONGEST,
    r".*(vocab_size|vocab_size_.*)": VOCAB,
}

# Families whose fields depend on one another in ways that no name tells.
DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 1e4}
ZAMBA = {"attention_hidden_size": 2 * WIDTH, "attention_head_dim": 16}
# whose positions begin after that of the padding token
AFTER_PADDING = "camembert", "data2vec-text", "roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl"
INDEXER = {"n_heads": 4, "kv_heads": 1, "head_dim": 8, "budget": 16, "compress_ratio": 4}
OWN: dict[str, dict[str, Any]] = {
    **{name: {"head_dim": 8} for name in ("hunyuan_v1_dense", "hunyuan_v1_moe", "ministral")},
    **{name: {"max_position_embeddings": LONGEST + 2} for name in AFTER_PADDING},
    "blt": {"encoder_hash_byte_group_vocab": 64},
    "cohere_compass_text": {"rope_parameters": {"full_attention": DEFAULT_ROPE, "sliding_attention": DEFAULT_ROPE}},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 1e4}},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "falcon_h1": {"mamba_d_ssm": 64},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]], "attention_layers": ["global", "local"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "mamba2": {"num_heads": 8},
    "nemotron": {"num_key_value_heads": 2},
    "qwen4_exp_text": {f"indexer_{name}": value for name, value in INDEXER.items()},
    "reformer": {"max_position_embeddings": 128, "axial_pos_shape": [16, 8], "axial_pos_embds_dim": [16, 16]},
    "xlm": {"causal": True},
    "xmod": {"default_language": "en_XX", "max_position_embeddings": LONGEST + 2},
    "zamba": {**ZAMBA, "num_hidden_layers": 12, "layers_block_type": None},
    "zamba2": {**ZAMBA, "hybrid_layer_ids": [1], "n_mamba_heads": 8},
    "zaya": {"num_experts_per_tok": 1},
}

# What a family can be beside its default: family, name, fields.
FREQUENCIES = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
FACTORS = {"short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "original_max_position_embeddings": 70}
ORIGINAL = {"original_max_position_embeddings": 50}
ROPES: dict[str, dict[str, Any]] = {"dynamic": {}, "linear": {}, "yarn": ORIGINAL, "llama3": ORIGINAL | FREQUENCIES}
VARIANTS: list[tuple[str, str, dict[str, Any]]] = [
    *(
        ("llama", f"rope: {kind}", {"rope_parameters": {"rope_type": kind, "rope_theta": 1e4, "factor": 4.0, **more}})
        for kind, more in ROPES.items()
    ),
    ("phi3", "rope: longrope", {"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, **FACTORS}}),
    ("llama", "tied output layer", {"tie_word_embeddings": True}),
    ("opt", "embeddings of another width", {"word_embed_proj_dim": 16}),
    ("bert", "an encoder", {"is_decoder": False}),
    ("xlm", "an encoder", {"causal": False}),
    ("roberta", "no padding token", {"pad_token_id": None}),
    ("xmod", "no language", {"default_language": None}),
]


# What is done to the rows of output that belong to no token: their biases set, or their weights multiplied.
CHANGES: dict[str, tuple[float | None, float]] = {
    "as it is": (None, 1.0),
    "biases of -1e9": (-1e9, 1.0),
    "weights times 1e3": (None, 1e3),
}


class Outcome(NamedTuple):
    """What was found for a model: a row of the table.

    outcome: "exact", "wrong", "refused" or "not built"; route: what is ranked, "one matrix" or "own logits"; padding:
    whether rows may be padded: "unseen", or "seen"; memory: whether the model keeps anything of what it reads: "none",
    or "kept"; near: how many tokens have another within rounding; reason: of an outcome that is not exact.
    """

    model: str
    variant: str
    outcome: str
    route: str = ""
    padding: str = ""
    memory: str = ""
    tokens: int = 0
    near: int = 0
    reason: str = ""


def shrunk(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of a configuration made small, those of configurations inside it too."""
    small = {name: _small(name, value, values) for name, value in values.items()}
    if "num_key_value_heads" in values and values["num_key_value_heads"] == values.get("num_attention_heads"):
        small["num_key_value_heads"] = HEADS  # as in multi-head latent attention, which has no others
    return small


def _small(name: str, value: Any, beside: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        if name == "per_layer_config":
            return {layer: shrunk(own) for layer, own in value.items() if int(layer) < LAYERS}
        return shrunk(value) if name.endswith("config") else value
    if isinstance(value, list) and len(value) in (beside.get("num_hidden_layers"), beside.get("n_layer")):
        return (sorted(set(value), key=value.index) + value)[:LAYERS]  # one for each layer: each kind is kept
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if name.endswith("token_id") and value >= VOCAB:
        return 0
    return next((small for pattern, small in SMALL.items() if re.fullmatch(pattern, name)), value)


def tiny_config(family: str, **own: Any) -> Any:
    """The default configuration of a family, made small."""
    kind = CONFIG_MAPPING[family]
    values = kind().to_dict()
    for name in ("model_type", "transformers_version", "architectures"):
        values.pop(name, None)
    values = shrunk(values)
    if "is_decoder" in values:
        values["is_decoder"] = True
    if isinstance(values.get("text_config"), dict):
        values["text_config"] |= OWN.get(f"{family}_text", {})
    return kind(**{**values, **OWN.get(family, {}), **own})


def survey(family: str, folder: Path, variant: str = "", **own: Any) -> Outcome:
    """What an extraction makes of a tiny model of `family`; own: fields of its configuration."""
    exact = Outcome(family, variant, "exact")
    with quiet():
        try:
            config = tiny_config(family, **own)
            with torch.device("meta"):
                size = sum(parameter.numel() for parameter in AutoModelForCausalLM.from_config(config).parameters())
            if size > LARGE:
                raise ValueError(f"it has {size:,} parameters")
            save_model(folder, config)
        except Exception as error:  # of any kind: what transformers cannot build by these means is no model to rank
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}".split(". ")[0][:160]
            return exact._replace(outcome="not built", reason=reason)
        found: dict[str, Outcome] = {}
        try:
            language = load(folder)
        except RbpError as error:
            return _refused(exact, error, folder)
        biased = getattr(language.model.get_output_embeddings(), "bias", None) is not None
        for change, (bias, _) in CHANGES.items():
            if bias is None or biased:
                try:
                    found[change] = _compared(exact, _changed(language, change))
                except RbpError as error:
                    found[change] = _refused(exact, error, folder)
    first, outcomes = next(iter(found.values())), [outcome.outcome for outcome in found.values()]
    wrong = [f"{change}: {outcome.reason}" for change, outcome in found.items() if outcome.outcome == "wrong"]
    if wrong or len({*outcomes}) > 1:
        return first._replace(outcome="wrong", reason="; ".join(wrong) or str(outcomes))
    return first


def _refused(exact: Outcome, error: RbpError, folder: Path) -> Outcome:
    return exact._replace(outcome="refused", reason=error.what.replace(str(folder), "…")[:160])


def _changed(language: LanguageModel, change: str) -> LanguageModel:
    """A copy of the model with the rows of output of no token changed."""
    bias, scale = CHANGES[change]
    model = copy.deepcopy(language.model)
    layer = model.get_output_embeddings()
    with torch.no_grad():
        if bias is not None:
            layer.bias[TOKENS:] = bias
        if scale != 1.0 and isinstance(getattr(layer, "weight", None), torch.Tensor):
            layer.weight[TOKENS:] *= scale
    return replace(language, model=model)


def _compared(exact: Outcome, language: LanguageModel) -> Outcome:
    """The outcome with its numbers; "wrong" if a rank differs from the logits' by more than rounding explains."""
    config = language.model.config.to_dict()
    longest = longest_input(config) or LONGEST
    draw = np.random.default_rng(0)
    lengths = [min(length, longest) for length in LENGTHS]
    rows = [Row(i, 0, draw.integers(3, TOKENS, length), np.arange(1, length)) for i, length in enumerate(lengths)]
    alone = Ranker(language, "blocked", 4, compiled=False)
    padded = Ranker(language, "blocked", 4, padded=not looks_at_length(config), compiled=False)
    alone.check(rows)
    padded.check(rows)
    logits = _logits(language.model, rows)
    targets = np.concatenate([row.ids[row.scored] for row in rows])
    truth = logits[np.arange(len(logits)), targets][:, None]
    largest = np.abs(logits[:, :TOKENS]).max()  # of what has a token
    cross_entropy = np.logaddexp.reduce(logits, axis=1) - truth[:, 0]
    expected = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None]) * np.abs(logits)
    wrong, before = [], torch.get_num_threads()
    try:
        # 256 units in the last place of float32; gated norms of linear attention amplify what padding rounds
        for ranker, rounding in ((padded, 1.2e-4), (alone, 3e-5)):
            slack = rounding * largest
            surely, possibly = (logits > truth + slack).sum(1), (logits >= truth - slack).sum(1)
            for threads in THREADS:
                torch.set_num_threads(threads)
                found = ranker.rank(rows)
                bad = (found.greater < surely) | (found.greater + found.equal > possibly)
                bad |= np.abs(cross_entropy - found.nll) > 2 * slack + 1e-6 + 2 * rounding * expected.sum(1)
                wrong.append(int(bad.sum()))
    finally:
        torch.set_num_threads(before)
    result = exact._replace(
        route="one matrix" if alone.head is not None else "own logits",
        padding="unseen" if padded.padded else "seen",
        memory="none" if alone.probe.steady else "kept",
        tokens=len(logits),
        near=int((possibly - surely > 1).sum()),
    )
    return result._replace(outcome="wrong", reason=f"{wrong} tokens") if any(wrong) else result


def _logits(model: Any, rows: list[Row]) -> Any:
    """What transformers gives before each scored token of the rows [T, V], float64: by a model that is new to each."""
    found = []
    for row in rows:
        with torch.inference_mode():
            logits = copy.deepcopy(model)(torch.from_numpy(row.ids)[None], use_cache=False).logits[0]
        found.append(logits[row.scored - 1].double().numpy())
    return np.concatenate(found)
