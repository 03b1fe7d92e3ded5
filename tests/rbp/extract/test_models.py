"""Folders of models: what is read and fingerprinted, and what is refused or named."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import CONFIGS
from transformers import AutoModelForCausalLM, Gemma3Config, LlamaConfig, Qwen3MoeConfig

from rbp.errors import DataError, ParameterError
from rbp.extract.models import find_model, load_model, load_tokenizer, passed_over

CPU = torch.device("cpu")


@pytest.fixture
def copy(saved, tmp_path):
    return Path(shutil.copytree(saved("gpt2"), tmp_path / "model"))


def load_all(folder):
    load_tokenizer(find_model(str(folder)))
    load(folder)


def load(folder):
    return load_model(find_model(str(folder)), "float32", CPU)


def change(path, **fields):
    """A file of JSON with some fields set."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./none", "no such model folder"),
        ("a/b/c", "no such model folder"),
        ("nobody/nothing", "hub cannot be reached"),
    ],
)
def test_no_such_model(name, message):
    with pytest.raises(DataError, match=message):
        find_model(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "no config.json"),
        ("model.safetensors", "weights are missing"),
        ("tokenizer.json", "no tokenizer"),
    ],
)
def test_a_folder_in_which_a_file_is_damaged_or_lacks(copy, name, message):
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError):
        load_all(copy)
    (copy / name).unlink()
    with pytest.raises(DataError, match=message):
        find_model(str(copy))


def test_weights_that_are_not_all_there(copy):
    state = load_file(copy / "model.safetensors")
    save_file({name: state[name] for name in state if "h.1." not in name}, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match="the weights lack"):
        load(copy)


def test_the_files_that_are_read_are_fingerprinted(copy):
    """transformers reads what config.json names, else the one file, else the shards."""

    def seen():
        found = find_model(str(copy))
        fingerprints.append(found.fingerprint())
        return [path.name for path in found.weights], load(copy).model.transformer.wte.weight

    def write(name):
        with torch.no_grad():
            model.transformer.wte.weight.add_(1)
        state = {key: each.contiguous() for key, each in model.state_dict().items() if key != "lm_head.weight"}
        save_file(state, copy / name, {"format": "pt"})
        return model.transformer.wte.weight.detach().clone()

    fingerprints = []
    names, whole = seen()
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(CONFIGS["gpt2"])
    model.save_pretrained(copy, max_shard_size="40KB")
    assert seen()[1].equal(whole)
    (copy / "model.safetensors").unlink()
    assert seen()[1].equal(model.transformer.wte.weight)
    weight = write("model.safetensors")
    names, found = seen()
    assert names == ["model.safetensors"]
    assert found.equal(weight)
    weight = write("other.safetensors")
    change(copy / "config.json", transformers_weights="other.safetensors")
    names, found = seen()
    assert names == ["other.safetensors"]
    assert found.equal(weight)
    assert len({*fingerprints[1:]}) == 4


def test_fields_that_the_class_does_not_have_are_named(copy, caplog):
    """What is meant by them does not reach the model, whose ranks are then another one's."""
    load(copy)
    change(copy / "config.json", n_ctx=64, task_specific_params={"a": 1}, unset=None, off=False)
    load(copy)
    assert "does not use" not in caplog.text
    change(copy / "config.json", alibi=True, auto_map={"AutoModelForCausalLM": "mine.Mine"})
    load(copy)
    assert "GPT2LMHeadModel does not use what config.json says by alibi, auto_map: ranks are of" in caplog.text


def test_fields_inside_of_fields_are_named_too():
    rope = {"rope_type": "linear", "factor": 2.0, "turn": 3.0}
    layers = {"full_attention": rope, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "twist": 1}}
    assert passed_over({"rope_scaling": {"type": "linear", "factor": 2.0}}, LlamaConfig()) == []
    assert passed_over({"rope_parameters": rope}, LlamaConfig()) == ["rope_parameters.turn"]
    found = passed_over({"text_config": {"rope_parameters": layers, "sharpen": 2}}, Gemma3Config())
    assert found == [f"text_config.{name}" for name in ("rope_parameters.turn", "rope_parameters.twist", "sharpen")]
    # as Qwen 3's mixtures read head_dim, which their class does not have
    assert passed_over({"head_dim": 24}, Qwen3MoeConfig(), 'getattr(config, "head_dim", None)') == []
    assert passed_over({"head_dim": 24}, Qwen3MoeConfig()) == ["head_dim"]


def _index_leads_out(copy):
    index = {"weight_map": {"wte": "../other.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    find_model(str(copy))  # the whole file is read
    (copy / "model.safetensors").unlink()


OTHER_FILES = {
    "malformed": _index_leads_out,
    "configuration_files": lambda copy: change(copy / "config.json", configuration_files=["config.4.0.0.json"]),
    "names no file of weights": lambda copy: change(copy / "config.json", transformers_weights="../other.safetensors"),
    r"torch\.distributed": lambda copy: shutil.copy(
        copy / "model.safetensors", copy / "shard-00000-model-00001-of-00001.safetensors"
    ),
}


@pytest.mark.parametrize("message", OTHER_FILES)
def test_files_that_transformers_would_read_instead_are_refused(copy, message):
    OTHER_FILES[message](copy)
    with pytest.raises(DataError, match=message):
        find_model(str(copy))


def test_fingerprints_follow_the_contents(copy, saved):
    first = find_model(str(saved("gpt2")))
    assert find_model(str(copy)).fingerprint() == first.fingerprint()
    change(copy / "config.json", layer_norm_epsilon=1e-3)
    assert find_model(str(copy)).fingerprint() != first.fingerprint()
    seen = [first.tokenizer_fingerprint()]
    assert find_model(str(copy)).tokenizer_fingerprint() == seen[0]
    shutil.copy(copy / "tokenizer.json", copy / "tokenizer.4.0.0.json")  # the one for this version
    names = ["tokenizer.4.0.0.json", "tokenizer.99.0.0.json"]
    change(copy / "tokenizer_config.json", fast_tokenizer_files=names)
    seen.append(find_model(str(copy)).tokenizer_fingerprint())
    change(copy / "tokenizer.4.0.0.json", pre_tokenizer={"type": "Whitespace"})
    seen.append(find_model(str(copy)).tokenizer_fingerprint())
    assert len({*seen}) == 3


def test_the_dtype_is_the_one_asked_for(copy):
    files = find_model(str(copy))
    assert load_model(files, "bfloat16", CPU).model.dtype == torch.bfloat16
    assert load_model(files, "float32", CPU).model.dtype == torch.float32
    with pytest.raises(ParameterError, match="float33"):
        load_model(files, "float33", CPU)


def test_a_revision_of_a_folder_is_a_checkpoint_in_it(copy, tmp_path):
    run = tmp_path / "run"
    for name in ("checkpoint-1000", "checkpoint-500"):
        shutil.copytree(copy, run / name, ignore=shutil.ignore_patterns("tokenizer*", "special*"))
    with pytest.raises(DataError, match="no tokenizer"):
        find_model(str(run), "checkpoint-500")
    shutil.copy(copy / "tokenizer.json", run)  # a run keeps one for all
    found = find_model(str(run), "checkpoint-500")
    assert (found.folder, found.checkpoint, found.revision) == (run / "checkpoint-500", "checkpoint-500", None)
    assert found.fingerprint() == find_model(str(copy)).fingerprint()
    assert find_model(str(copy)).checkpoint is None
    for revision, what in (
        ("main", "no checkpoint main"),
        ("../run/checkpoint-500", "no checkpoint"),
        (None, "no config.json"),
    ):
        with pytest.raises(DataError, match=rf"{what}(.|\n)*There is: checkpoint-500, checkpoint-1000\."):
            find_model(str(run), revision)
    with pytest.raises(DataError, match="no checkpoint main"):
        find_model(str(copy), "main")
