"""S of models of the paper, from each family, their architectures built from numbers without weights."""

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPTNeoXConfig, OPTConfig, Qwen2Config

from companion.project import DATA
from rbp.extract.models import non_embedding_params

PUBLISHED = pd.read_csv(DATA / "published" / "models.csv")
# width, layers, heads; what else differs within a family
GPT2 = {"gpt2": (768, 12, 12), "gpt2-xl": (1600, 48, 25)}
OPT = {"opt-125m": (768, 12, 12), "opt-350m": (1024, 24, 16)}
PYTHIA = {"pythia-14m": (128, 6, 4), "pythia-1b": (2048, 16, 8), "pythia-12b": (5120, 36, 40)}
QWEN = {  # and heads of keys and values, and the inner width
    "Qwen2.5-0.5B": (896, 24, 14, 2, 4864),
    "Qwen2.5-7B": (3584, 28, 28, 4, 18944),
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


SIZES = dict(zip(PUBLISHED["model"].str.split("/").str[1], PUBLISHED["non_embedding_params"], strict=True))


@pytest.mark.parametrize("name", [*GPT2, *OPT, *PYTHIA, *QWEN])
def test_size_is_the_published_one(name):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config_of(name))
    assert non_embedding_params(model) == SIZES[name]
