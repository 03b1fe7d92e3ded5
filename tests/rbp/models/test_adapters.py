"""Adapters run beside the weights of their model: nothing is merged. All kinds: tests/slow/test_every_model.py."""

import shutil

import pytest
import torch
from adapters import adapter, save_adapter, survey_adapter
from peft import LoraConfig
from safetensors.torch import load_file, save_file
from tiny import VOCAB, configure, load

from rbp.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:peft")


@pytest.fixture
def shared_head(saved, tmp_path):
    """peft's own model, and the folder of an adapter of GPT-2, whose embedding is its output layer: with a new one."""
    config = LoraConfig(r=2, target_modules=["c_attn"], modules_to_save=["lm_head"], fan_in_fan_out=True)
    return save_adapter(saved("gpt2"), config, tmp_path / "adapter"), tmp_path / "adapter"


@pytest.mark.parametrize("kind", ["IA3", "layer_replication", "on the embedding"])
def test_an_adapter_gives_the_bits_that_peft_gives(kind, tmp_path):
    """A merge rounds, and where layers share their weights it adds each one's change to all."""
    found = survey_adapter(kind, tmp_path)
    assert found.outcome == "exact", found.reason


def test_what_is_added_to_one_use_of_a_shared_matrix_does_not_get_into_the_other(saved, shared_head):
    own, folder = shared_head
    ids = torch.arange(40)[None]
    with torch.inference_mode():
        expected = own(input_ids=ids).logits
        ours, before = (load(place).model(input_ids=ids).logits for place in (folder, saved("gpt2")))
    assert (before - expected).abs().max() > 0.1
    assert (ours - expected).abs().max() < 1e-5 * expected.abs().max()


def without_a_layer(state):
    return {name: values for name, values in state.items() if ".h.1." not in name}


def with_more_tokens(state):
    return state | {name: torch.ones(VOCAB + 3, 32) for name in state if "lm_head" in name}


@pytest.mark.parametrize(
    ("fields", "change", "message"),
    [
        ({"turned": True}, dict, r"peft does not know turned of adapter_config\.json"),
        ({"target_modules": ["no_such_layer"]}, dict, "cannot apply the adapter"),
        ({}, without_a_layer, r"do not fit together in .*\.h\.1\."),
        ({}, with_more_tokens, r"\(323, 32\) in the adapter, and \(320, 32\)"),
    ],
)
def test_an_adapter_that_would_not_be_applied_whole_is_refused(shared_head, fields, change, message):
    _, folder = shared_head
    configure(folder / "adapter_config.json", **fields)
    path = folder / "adapter_model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})
    with pytest.raises(DataError, match=message):
        load(folder)


def test_tokens_before_the_text_and_weights_beside_are_refused(shared_head, saved, tmp_path):
    adapter("PROMPT_TUNING", tmp_path / "prompt")
    both = shutil.copytree(saved("gpt2"), tmp_path / "both")
    shutil.copytree(shared_head[1], both, dirs_exist_ok=True)
    with pytest.raises(DataError, match=r"adds tokens before the text \(prompt tuning\)"):
        load(tmp_path / "prompt" / "adapter")
    with pytest.raises(DataError, match="weights and an adapter beside them"):
        load(both)


def test_an_adapter_that_its_base_holds_already_is_named(tmp_path, caplog):
    merged = adapter("LORA", tmp_path).merge_and_unload()
    load(tmp_path / "adapter")
    assert "merged into them" not in caplog.text
    merged.save_pretrained(tmp_path / "base")
    load(tmp_path / "adapter")
    assert "of what the adapter adds: if it was merged into them" in caplog.text
