"""Folders of models: what is read and fingerprinted, and what is refused or named; and S of the paper's models."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from tiny import CONFIGS, VOCAB, configure, load
from transformers import AutoModelForCausalLM, GPT2Config, GPTNeoXConfig, OPTConfig, Qwen2Config

from companion.project import DATA
from rbp.errors import DataError
from rbp.models.find import find_model
from rbp.models.load import load_tokenizer
from rbp.models.sizes import non_embedding_params


@pytest.fixture
def copy(saved, tmp_path):
    return Path(shutil.copytree(saved("gpt2"), tmp_path / "model"))


def load_both(folder):
    load_tokenizer(find_model(str(folder)))
    load(folder)


def test_the_files_that_are_read_are_fingerprinted(copy):
    """transformers reads what config.json names, else the one file, else the shards."""

    def seen():
        fingerprints.append(find_model(str(copy)).fingerprint())
        return load(copy).model.transformer.wte.weight

    fingerprints = []
    first_weight, model = seen(), AutoModelForCausalLM.from_config(CONFIGS["gpt2"])
    weight = model.transformer.wte.weight
    model.save_pretrained(copy, max_shard_size="40KB")
    assert seen().equal(first_weight)
    (copy / "model.safetensors").unlink()
    assert seen().equal(weight)
    for name in ("model.safetensors", "other.safetensors"):
        with torch.no_grad():
            weight.add_(1)
        state = {key: tensor.contiguous() for key, tensor in model.state_dict().items() if key != "lm_head.weight"}
        save_file(state, copy / name, {"format": "pt"})
        if name != "model.safetensors":
            configure(copy / "config.json", transformers_weights=name)
        assert [path.name for path in find_model(str(copy)).weights] == [name]
        assert seen().equal(weight)
    assert len({*fingerprints[1:]}) == 4


def test_fields_that_the_class_does_not_have_are_named(copy, caplog):
    """What is meant by them does not reach the model, whose ranks are then another one's."""
    load(copy)
    configure(copy / "config.json", n_ctx=64, task_specific_params={"a": 1}, unset=None, off=False)
    load(copy)
    assert "does not use" not in caplog.text
    configure(copy / "config.json", alibi=True, auto_map={"AutoModelForCausalLM": "mine.Mine"})
    load(copy)
    assert "GPT2LMHeadModel does not use what config.json says by alibi, auto_map: ranks are of" in caplog.text


def test_a_folder_in_a_run_is_a_checkpoint_of_it(copy, tmp_path, monkeypatch):
    run = tmp_path / "run"
    for name in ("checkpoint-1000", "checkpoint-500"):
        shutil.copytree(copy, run / name, ignore=shutil.ignore_patterns("tokenizer*", "special*"))
    with pytest.raises(DataError, match="no tokenizer"):
        find_model(str(run / "checkpoint-500"))
    shutil.copy(copy / "tokenizer.json", run)  # a run keeps one for all
    found = find_model(str(run / "checkpoint-500"))
    assert (found.label, found.folder) == (f"{run}@checkpoint-500", run / "checkpoint-500")
    assert found.revision is None
    assert found == find_model(str(run), "checkpoint-500")
    monkeypatch.chdir(run)
    assert find_model("checkpoint-500").name == str(run)
    assert found.fingerprint() == find_model(str(copy)).fingerprint()
    assert find_model(str(copy)).checkpoint is None


LFS = f"version https://git-lfs.github.com/spec/v1\noid sha256:{64 * '0'}\nsize 12345\n"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_layer": 10**8}, r"n_layer is 100,000,000, and the weights are \d+ tensors"),  # builds nothing
        ({"n_head": -2}, r"n_head is -2 .*config.json"),
        ({"text_config": {"n_embd": 10**9}}, r"text_config.n_embd is 1,000,000,000"),
        ({"n_layer": 1}, r"does not take .*h\.1\."),
        ({"vocab_size": VOCAB + 8}, rf"has the shape \({VOCAB}, 32\), and"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, r"quantized \(gptq\)"),
        (None, "model.safetensors is a pointer of git LFS.*\n.*git lfs pull"),
    ],
    ids=["layers", "negative", "nested", "fewer layers", "another head", "gptq", "git lfs"],
)
def test_a_folder_whose_files_do_not_fit_together_is_refused(copy, fields, message):
    if fields is None:
        (copy / "model.safetensors").write_text(LFS)
    else:
        configure(copy / "config.json", **fields)
    with pytest.raises(DataError, match=message):
        load_both(copy)


PUBLISHED = pd.read_csv(DATA / "published" / "models.csv")
SIZES = dict(zip(PUBLISHED["model"].str.split("/").str[1], PUBLISHED["non_embedding_params"], strict=True))


def shape(width, layers, heads, **more):
    return {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads, **more}


CONFIGURATIONS = {
    "gpt2": GPT2Config(),
    # its embeddings are narrower, and its norms come after the layers
    "opt-350m": OPTConfig(**shape(1024, 24, 16, ffn_dim=4096, word_embed_proj_dim=512, do_layer_norm_before=False)),
    "pythia-14m": GPTNeoXConfig(**shape(128, 6, 4, intermediate_size=512)),
    "Qwen2.5-0.5B": Qwen2Config(
        **shape(896, 24, 14, num_key_value_heads=2, intermediate_size=4864, tie_word_embeddings=True)
    ),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_size_is_the_published_one(name):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIGURATIONS[name])
    assert non_embedding_params(model) == SIZES[name]
