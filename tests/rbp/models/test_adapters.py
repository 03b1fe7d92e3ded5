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
#: of GPT-2, whose input and output share one matrix: settings of an adapter, and of saving it
TIED = {
    "output, without the model's own weights": ({"target_modules": ["lm_head"]}, {"save_embedding_layers": False}),
    "whole output": ({"target_modules": ["c_attn"], "modules_to_save": ["lm_head"]}, {}),
    "some tokens": ({"target_modules": ["c_attn"], "trainable_token_indices": [7, 80]}, {}),
}


def tied(base, folder, which):
    config, save = TIED[which]
    return save_adapter(base, LoraConfig(r=2, lora_alpha=6, fan_in_fan_out=True, **config), folder, **save)


@pytest.fixture
def adapter_folder(saved, tmp_path):
    """The folder of an adapter of GPT-2's attention, with an output layer of its own."""
    tied(saved("gpt2"), tmp_path / "adapter", "whole output")
    return tmp_path / "adapter"


@pytest.mark.parametrize("kind", ["IA3", "layer_replication", "whole head", "on the embedding"])
def test_an_adapter_gives_the_bits_that_peft_gives(kind, tmp_path):
    """A merge rounds, and where layers share their weights it adds each one's change to all."""
    found = survey_adapter(kind, tmp_path)
    assert found.outcome == "exact", found.reason


@pytest.mark.parametrize("which", TIED)
def test_what_is_added_to_one_use_of_a_shared_matrix_does_not_get_into_the_other(saved, which, tmp_path):
    own = tied(saved("gpt2"), tmp_path / "adapter", which)
    ids = torch.arange(40)[None]
    with torch.inference_mode():
        expected = own(input_ids=ids).logits
        ours, before = (load(place).model(input_ids=ids).logits for place in (tmp_path / "adapter", saved("gpt2")))
    assert (before - expected).abs().max() > 0.1
    assert (ours - expected).abs().max() < 1e-5 * expected.abs().max()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"turned": True, "untold": None}, r"peft does not know turned of adapter_config\.json"),
        ({"target_modules": ["no_such_layer"]}, "cannot apply the adapter"),
    ],
)
def test_a_configuration_that_would_not_be_applied_as_it_is_meant_is_refused(adapter_folder, fields, message):
    configure(adapter_folder / "adapter_config.json", **fields)
    with pytest.raises(DataError, match=message):
        load(adapter_folder)


def test_tokens_before_the_text_and_weights_beside_are_refused(adapter_folder, saved, tmp_path):
    adapter("PROMPT_TUNING", tmp_path / "prompt")
    both = shutil.copytree(saved("gpt2"), tmp_path / "both")
    shutil.copytree(adapter_folder, both, dirs_exist_ok=True)
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {n: v for n, v in state.items() if ".h.1." not in n}, r"do not fit together in .*\.h\.1\."),
        (lambda state: state | {n.replace(".1.", ".7."): v.clone() for n, v in state.items()}, r"do not .*\.h\.7\."),
        (lambda state: state | {n: torch.ones(VOCAB + 3, 32) for n in state if "lm_head" in n},
         r"\(323, 32\) in the adapter, and \(320, 32\)(.|\n)*vocabulary was changed"),
    ],
    ids=["one layer less", "one more", "more tokens"],
)  # fmt: skip
def test_an_adapter_of_another_model_is_not_applied_in_part(adapter_folder, change, message):
    path = adapter_folder / "adapter_model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})
    with pytest.raises(DataError, match=message):
        load(adapter_folder)
