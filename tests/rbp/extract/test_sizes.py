"""S of the 24 models of the paper, their architectures built from numbers without weights."""

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPTNeoXConfig, OPTConfig, Qwen2Config

from companion.project import DATA
from rbp.extract.models import non_embedding_params

PUBLISHED = pd.read_csv(DATA / "published" / "models.csv").set_index("model")


def gpt2(width, layers, heads):
    return GPT2Config(n_embd=width, n_layer=layers, n_head=heads, n_positions=1024, vocab_size=50257)


def opt(width, layers, heads, narrow=None):
    return OPTConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        ffn_dim=4 * width,
        max_position_embeddings=2048,
        vocab_size=50272,
        word_embed_proj_dim=narrow or width,
        do_layer_norm_before=narrow is None,  # OPT-350m is the one with the norms after the layers
    )


def pythia(width, layers, heads, vocab=50304):
    return GPTNeoXConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        vocab_size=vocab,
        tie_word_embeddings=False,
    )


def qwen(width, layers, heads, kv_heads, inner, vocab=151936, tied=True):
    return Qwen2Config(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=inner,
        vocab_size=vocab,
        tie_word_embeddings=tied,
    )


CONFIGS = {
    "openai-community/gpt2": gpt2(768, 12, 12),
    "openai-community/gpt2-medium": gpt2(1024, 24, 16),
    "openai-community/gpt2-large": gpt2(1280, 36, 20),
    "openai-community/gpt2-xl": gpt2(1600, 48, 25),
    "facebook/opt-125m": opt(768, 12, 12),
    "facebook/opt-350m": opt(1024, 24, 16, narrow=512),
    "facebook/opt-1.3b": opt(2048, 24, 32),
    "facebook/opt-2.7b": opt(2560, 32, 32),
    "facebook/opt-6.7b": opt(4096, 32, 32),
    "EleutherAI/pythia-14m": pythia(128, 6, 4),
    "EleutherAI/pythia-31m": pythia(256, 6, 8),
    "EleutherAI/pythia-70m": pythia(512, 6, 8),
    "EleutherAI/pythia-160m": pythia(768, 12, 12),
    "EleutherAI/pythia-410m": pythia(1024, 24, 16),
    "EleutherAI/pythia-1b": pythia(2048, 16, 8),
    "EleutherAI/pythia-1.4b": pythia(2048, 24, 16),
    "EleutherAI/pythia-2.8b": pythia(2560, 32, 32),
    "EleutherAI/pythia-6.9b": pythia(4096, 32, 32, vocab=50432),
    "EleutherAI/pythia-12b": pythia(5120, 36, 40, vocab=50688),
    "Qwen/Qwen2.5-0.5B": qwen(896, 24, 14, 2, 4864),
    "Qwen/Qwen2.5-1.5B": qwen(1536, 28, 12, 2, 8960),
    "Qwen/Qwen2.5-3B": qwen(2048, 36, 16, 2, 11008),
    "Qwen/Qwen2.5-7B": qwen(3584, 28, 28, 4, 18944, vocab=152064, tied=False),
    "Qwen/Qwen2.5-14B": qwen(5120, 48, 40, 8, 13824, vocab=152064, tied=False),
}


def test_all_24_models_are_here():
    assert set(CONFIGS) == set(PUBLISHED.index)


@pytest.mark.parametrize("name", CONFIGS)
def test_size_is_the_published_one(name):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIGS[name])
    assert non_embedding_params(model) == PUBLISHED.loc[name, "non_embedding_params"]
