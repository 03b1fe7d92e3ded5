"""Adapters run beside the weights of their model: nothing is merged."""

import shutil

import peft
import pytest
import torch
from draws import rest_slow
from safetensors.torch import load_file, save_file
from tiny import VOCAB, configure, load, save_model
from transformers import AutoModelForCausalLM

from rbp.errors import DataError
from rbp.models.sizes import non_embedding_params

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:peft")
LAYERS = ["q_proj", "v_proj"]


def save_adapter(base, config, folder):
    """Save an adapter of the model in `base`, all of whose weights have moved; gives peft's own model."""
    torch.manual_seed(5)
    net = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model = peft.get_peft_model(net, config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad and parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder)
    return model


def save_llama_adapter(config, folder):
    """The same of a Llama, as folder/adapter beside folder/base."""
    return save_adapter(save_model(folder / "base", "llama"), config, folder / "adapter")


def logits(model, ids):
    with torch.inference_mode():
        return model(input_ids=ids).logits


CONFIGS = {
    "IA3": peft.IA3Config(target_modules=[*LAYERS, "down_proj"], feedforward_modules=["down_proj"]),
    "layers twice": peft.LoraConfig(r=2, target_modules=LAYERS, layer_replication=[[0, 2], [1, 2]]),
    "on the embedding": peft.LoraConfig(r=2, target_modules=["embed_tokens", "q_proj"]),
}
OTHERS = {
    "DoRA": peft.LoraConfig(r=2, target_modules=LAYERS, use_dora=True, bias="lora_only"),
    "some tokens": peft.LoraConfig(r=2, target_modules=LAYERS, trainable_token_indices=[7, 80]),
    "OFT": peft.OFTConfig(r=0, oft_block_size=4, target_modules=LAYERS),
    "norms": peft.LNTuningConfig(target_modules=["input_layernorm"]),
    "before attention": peft.AdaptionPromptConfig(adapter_len=4, adapter_layers=1, task_type="CAUSAL_LM"),
}


@pytest.mark.parametrize("kind", rest_slow(CONFIGS, OTHERS))
def test_an_adapter_gives_the_bits_that_peft_gives(kind, tmp_path):
    """A merge rounds, and where layers share their weights it adds each one's change to all."""
    own, ids = save_llama_adapter((CONFIGS | OTHERS)[kind], tmp_path), torch.arange(3, 43)[None]
    loaded = load(tmp_path / "adapter")
    assert torch.equal(logits(loaded.model, ids), logits(own, ids))
    assert loaded.size == non_embedding_params(own)
    assert kind == "layers twice" or loaded.size == load(tmp_path / "base").size


@pytest.fixture
def shared_head(saved, tmp_path):
    """peft's own model, and the folder of an adapter of GPT-2, whose embedding is its output layer: with a new one."""
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], modules_to_save=["lm_head"], fan_in_fan_out=True)
    return save_adapter(saved("gpt2"), config, tmp_path / "adapter"), tmp_path / "adapter"


def test_what_is_added_to_one_use_of_a_shared_matrix_does_not_get_into_the_other(saved, shared_head):
    own, folder = shared_head
    ids = torch.arange(40)[None]
    expected, ours, before = (logits(model, ids) for model in (own, load(folder).model, load(saved("gpt2")).model))
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
    config = peft.PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM")
    save_llama_adapter(config, tmp_path / "prompt")
    both = shutil.copytree(saved("gpt2"), tmp_path / "both")
    shutil.copytree(shared_head[1], both, dirs_exist_ok=True)
    with pytest.raises(DataError, match=r"adds tokens before the text \(prompt tuning\)"):
        load(tmp_path / "prompt" / "adapter")
    with pytest.raises(DataError, match="weights and an adapter beside them"):
        load(both)


def test_an_adapter_that_its_base_holds_already_is_named(tmp_path, caplog):
    merged = save_llama_adapter(peft.LoraConfig(r=2, target_modules=LAYERS), tmp_path).merge_and_unload()
    load(tmp_path / "adapter")
    assert "merged into them" not in caplog.text
    merged.save_pretrained(tmp_path / "base")
    load(tmp_path / "adapter")
    assert "of what the adapter adds: if it was merged into them" in caplog.text
