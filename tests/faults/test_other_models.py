"""Another model in the place of the one that was named, and files that are no weights: named as what they are."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import VOCAB, save_model, texts, write_texts
from transformers import AutoModelForCausalLM

from rbp.errors import DataError, ParameterError
from rbp.extract.extraction import Settings, extract
from rbp.extract.models import find_model, load_model, load_tokenizer
from rbp.extract.protocol import protocol

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:peft")
CPU = torch.device("cpu")


@pytest.fixture
def copy(model, tmp_path):
    return Path(shutil.copytree(model, tmp_path / "model"))


def configure(folder: Path, name: str = "config.json", **fields: object) -> None:
    """Write fields into a configuration."""
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def change_weights(folder: Path, change, name: str = "model.safetensors") -> None:
    state = load_file(folder / name)
    change(state)
    save_file(state, folder / name, {"format": "pt"})


def load(folder: Path, dtype="float32"):
    files = find_model(str(folder))
    load_tokenizer(files)
    return load_model(files, dtype, CPU)


def refused(folder: Path, message: str) -> str:
    """The remedy, of the error that says `message`."""
    with pytest.raises(DataError, match=message) as caught:
        load(folder)
    assert "\n" not in caught.value.what
    return caught.value.remedy


CONFIGURED = {  # fields of config.json, what is said, and a word of the remedy
    "fewer layers": ({"n_layer": 1}, r"does not take .*h\.1\.", "num_hidden_layers"),
    "another head": ({"vocab_size": VOCAB + 8}, rf"has the shape \({VOCAB}, 32\), and", "vocab_size"),
    "gptq": ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, r"quantized \(gptq\)", "before it was"),
    "of the text": ({"text_config": {"quantization_config": {"quant_method": "sorcery"}}}, "not know: sorcery", ""),
}


@pytest.mark.parametrize("which", CONFIGURED)
def test_a_configuration_that_is_not_that_of_the_weights(copy, which):
    fields, message, remedy = CONFIGURED[which]
    configure(copy, **fields)
    assert remedy in refused(copy, message)


def test_masks_that_old_versions_saved_are_no_weights(tmp_path):
    folder = save_model(tmp_path / "neo", "neox")
    mask = torch.ones(1, 1, 8, 8, dtype=torch.bool)
    masks = {"layers.0.attn.attention.bias": mask, "layers.0.attn.attention.masked_bias": torch.tensor(-1e9)}
    change_weights(folder, lambda state: state.update(masks))
    load(folder)
    change_weights(folder, lambda state: state.update({"layers.0.mlp.qweight": torch.ones(32)}))
    refused(folder, "GPTQ or AWQ")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_pointer_of_git_lfs(copy, name):
    (copy / name).write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{64 * '0'}\nsize 12345\n")
    assert "git lfs pull" in refused(copy, f"{name} is a pointer of git LFS")


ON_EMBEDDINGS = {  # settings of an adapter of GPT-2, whose input and output share one matrix, and of saving it
    "output, without the model's own weights": ({"target_modules": ["lm_head"]}, {"save_embedding_layers": False}),
    "output, with magnitudes": ({"target_modules": ["lm_head"], "use_dora": True}, {}),
    "input and output": ({"target_modules": ["wte", "lm_head"]}, {}),
    "neither, but both are saved": ({"target_modules": ["c_attn"]}, {"save_embedding_layers": True}),
    "whole output": ({"target_modules": ["c_attn"], "modules_to_save": ["lm_head"]}, {}),
    "some tokens": ({"target_modules": ["c_attn"], "trainable_token_indices": [7, 80]}, {}),
}


def save_adapter(base: Path, folder: Path, which: str):
    """An adapter as peft saves it, all of whose weights have moved; gives peft's own model, nothing merged."""
    import peft  # slow

    config, save = ON_EMBEDDINGS[which]
    torch.manual_seed(5)
    net = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    lora = peft.LoraConfig(r=2, lora_alpha=6, task_type="CAUSAL_LM", fan_in_fan_out=True, **config)
    model = peft.get_peft_model(net, lora).eval()
    moved = [parameter for parameter in model.parameters() if parameter.requires_grad]
    moved += [model.get_input_embeddings().weight] if save.get("save_embedding_layers") else []
    with torch.no_grad():
        for parameter in moved:
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder, **save)
    return model


@pytest.fixture
def adapter(model, tmp_path):
    """The folder of an adapter of the tiny model's attention."""
    save_adapter(model, tmp_path / "adapter", "whole output")
    return tmp_path / "adapter"


@pytest.mark.parametrize("which", ON_EMBEDDINGS)
def test_an_adapter_of_the_embeddings_gives_what_peft_gives(model, which, tmp_path):
    """What is added to one use of the shared matrix must not get into the other."""
    own = save_adapter(model, tmp_path / "adapter", which)
    ids = torch.arange(40)[None]
    with torch.inference_mode():
        expected = own(input_ids=ids).logits
        ours, before = (load(folder).model(input_ids=ids).logits for folder in (tmp_path / "adapter", model))
    assert (before - expected).abs().max() > 0.1
    assert (ours - expected).abs().max() < 1e-5 * expected.abs().max()


def test_an_adapter_beside_weights_is_not_passed_over(copy, adapter):
    shutil.copytree(adapter, copy, dirs_exist_ok=True)
    assert "folder of its own" in refused(copy, "weights and an adapter beside them")


def test_without_peft_an_adapter_is_named(adapter, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    assert "merge_and_unload" in refused(adapter, "this is an adapter")


ADAPTERS = {  # fields of adapter_config.json, and what is said
    "no base": ({"base_model_name_or_path": "/no/such/model"}, "there is no such model folder"),
    "unnamed base": ({"base_model_name_or_path": ""}, "does not say which model"),
    "other layers": ({"target_modules": ["no_such_layer"]}, "cannot apply the adapter"),
}


@pytest.mark.parametrize("which", ADAPTERS)
def test_an_adapter_whose_configuration_fits_no_model(adapter, which):
    fields, message = ADAPTERS[which]
    configure(adapter, "adapter_config.json", **fields)
    refused(adapter, message)


def test_an_adapter_of_more_tokens_than_the_model_has(model, tmp_path):
    net = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    net.resize_token_embeddings(VOCAB + 3)
    net.save_pretrained(tmp_path / "larger")
    save_adapter(tmp_path / "larger", tmp_path / "adapter", "neither, but both are saved")
    configure(tmp_path / "adapter", "adapter_config.json", base_model_name_or_path=str(model))
    said = r"lm_head.weight and 1 more has the shape \(323, 32\) in the adapter, and \(320, 32\)"
    assert "vocabulary was changed" in refused(tmp_path / "adapter", said)


@pytest.mark.parametrize("change", ["one more", "one less"])
def test_an_adapter_of_another_model_is_not_applied_in_part(adapter, change):
    def other(state):
        layer = [name for name in state if ".h.1." in name]
        for name in layer:
            if change == "one more":
                state[name.replace(".h.1.", ".h.7.")] = state[name].clone()
            else:
                del state[name]

    change_weights(adapter, other, "adapter_model.safetensors")
    refused(adapter, r"do not fit together in .*\.h\.[17]\.")


def test_float64_is_refused_where_parts_are_computed_in_float32(copy, tmp_path):
    assert load(copy, "float64").model.dtype == torch.float64
    corpus = [str(write_texts(tmp_path / "corpus.jsonl", texts(4)))]
    with pytest.raises(ParameterError, match="llama computes parts in float32"):
        extract([str(save_model(tmp_path / "llama", "llama"))], corpus, protocol("windows", length=48, context=16),
                tmp_path / "out", Settings(dtype="float64", backend="reference"))  # fmt: skip
