"""S of the 24 models of the paper, their architectures built from numbers without weights."""

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPTNeoXConfig, OPTConfig, Qwen2Config

from companion.project import DATA
from rbp.extract.models import non_embedding_params

PUBLISHED = pd.read_csv(DATA / "published" / "models.csv").set_index("model")["non_embedding_params"]
# width, layers, heads; what else differs within a family
GPT2 = {"gpt2": (768, 12, 12), "gpt2-medium": (1024, 24, 16), "gpt2-large": (1280, 36, 20), "gpt2-xl": (1600, 48, 25)}
OPT = {
    "opt-125m": (768, 12, 12),
    "opt-350m": (1024, 24, 16),
    "opt-1.3b": (2048, 24, 32),
    "opt-2.7b": (2560, 32, 32),
    "opt-6.7b": (4096, 32, 32),
}
PYTHIA = {
    "pythia-14m": (128, 6, 4),
    "pythia-31m": (256, 6, 8),
    "pythia-70m": (512, 6, 8),
    "pythia-160m": (768, 12, 12),
    "pythia-410m": (1024, 24, 16),
    "pythia-1b": (2048, 16, 8),
    "pythia-1.4b": (2048, 24, 16),
    "pythia-2.8b": (2560, 32, 32),
    "pythia-6.9b": (4096, 32, 32),
    "pythia-12b": (5120, 36, 40),
}
QWEN = {  # and heads of keys and values, and the inner width
    "Qwen2.5-0.5B": (896, 24, 14, 2, 4864),
    "Qwen2.5-1.5B": (1536, 28, 12, 2, 8960),
    "Qwen2.5-3B": (2048, 36, 16, 2, 11008),
    "Qwen2.5-7B": (3584, 28, 28, 4, 18944),
    "Qwen2.5-14B": (5120, 48, 40, 8, 13824),
}


def config_of(name):
    if name in GPT2:
        width, layers, heads = GPT2[name]
        return GPT2Config(n_embd=width, n_layer=layers, n_head=heads, n_positions=1024, vocab_size=50257)
    width, layers, heads, *more = (OPT | PYTHIA | QWEN)[name]
    shape = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    if name in PYTHIA:
        return GPTNeoXConfig(**shape, intermediate_size=4 * width, vocab_size=50304, tie_word_embeddings=False)
    if name in QWEN:
        kv, inner = more
        tied = width < 3000
        return Qwen2Config(**shape, num_key_value_heads=kv, intermediate_size=inner, tie_word_embeddings=tied)
    narrow = name == "opt-350m"  # whose embeddings are narrower, and whose norms come after the layers
    more = {"word_embed_proj_dim": 512 if narrow else width, "do_layer_norm_before": not narrow}
    return OPTConfig(**shape, ffn_dim=4 * width, max_position_embeddings=2048, vocab_size=50272, **more)


@pytest.mark.parametrize("name", PUBLISHED.index)
def test_size_is_the_published_one(name):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config_of(name.split("/")[1]))
    assert non_embedding_params(model) == PUBLISHED[name]
