"""Tiny random language models of many architectures, and a tokenizer trained on the spot: nothing is downloaded."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything of Hugging Face is imported

import json
import random
from copy import deepcopy
from functools import cache
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from rbp.models.find import find_model
from rbp.models.load import load_model

VOCAB = 320  # rows of the output layer; the tokenizer has fewer, as Pythia's
SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": None,
}
GROUPED = {**SHAPE, "intermediate_size": 64, "num_key_value_heads": 2}
CONFIGS = {
    "gpt2": transformers.GPT2Config(**SHAPE),
    "neox": transformers.GPTNeoXConfig(**SHAPE, intermediate_size=64, tie_word_embeddings=False, hidden_act="gelu"),
    "opt": transformers.OPTConfig(**SHAPE, ffn_dim=64, word_embed_proj_dim=16),
    "llama": transformers.LlamaConfig(**GROUPED, tie_word_embeddings=False),
    "gemma2": transformers.Gemma2Config(**GROUPED, head_dim=8, final_logit_softcapping=3.0),
    "cohere": transformers.CohereConfig(**SHAPE, intermediate_size=64, logit_scale=0.25),
    "mixtral": transformers.MixtralConfig(**GROUPED, num_local_experts=4),
}
WORDS = ["the", "rank", "of", "a", "token", "among", "all", "scores", "falls", "as", "models", "grow", "law", "data"]
SPECIAL = {"eos_token": "<|end|>", "bos_token": "<|end|>"}


def texts(count, seed=0, longest=120):
    rng = random.Random(seed)  # noqa: S311
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, longest))) + "." for _ in range(count)]


def train(corpus, vocabulary, cut):
    """A byte-level tokenizer of a corpus, whose pre-tokenizer is `cut`."""
    raw, alphabet = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel.alphabet()
    raw.pre_tokenizer, raw.decoder = cut, decoders.ByteLevel()
    options = {"special_tokens": ["<|end|>"], "initial_alphabet": alphabet, "show_progress": False}
    raw.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=vocabulary, **options))
    return raw


@cache
def _trained():
    return train(texts(200, seed=9), 300, pre_tokenizers.ByteLevel(add_prefix_space=False)).to_str()


def make_tokenizer(template=None, **options):
    """A byte-level tokenizer of 300 tokens; template: what stands around a text, as in "<|end|> $A"."""
    raw = Tokenizer.from_str(_trained())
    if template:
        around = [(word, raw.token_to_id(word)) for word in {*template.split()} - {"$A"}]
        raw.post_processor = processors.TemplateProcessing(single=template, special_tokens=around)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **SPECIAL, **options)


def random_model(kind):
    """A model with random weights, of an architecture of CONFIGS or of a configuration."""
    torch.manual_seed(1)
    config = deepcopy(CONFIGS[kind] if isinstance(kind, str) else kind)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():  # as initialized, the logits would be near 0 and near one another
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def save_model(folder, kind="gpt2", tokenizer=None):
    """The folder of such a model with a tokenizer."""
    random_model(kind).save_pretrained(folder)
    (tokenizer or make_tokenizer()).save_pretrained(folder)
    return Path(folder)


def write_texts(path, documents):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    return path


def load(folder, dtype="float32"):
    """The model in a folder or a file, as an extraction loads it on a CPU."""
    return load_model(find_model(str(folder)), dtype, torch.device("cpu"))


def configure(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
