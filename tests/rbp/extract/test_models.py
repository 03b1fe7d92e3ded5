import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tiny import CONFIGS
from transformers import AutoModelForCausalLM, Gemma3Config, LlamaConfig, Qwen3MoeConfig

from rbp.errors import DataError, ParameterError
from rbp.extract.models import find_model, load_model, load_tokenizer, passed_over
from rbp.extract.protocol import longest_input

CPU = torch.device("cpu")


@pytest.fixture
def copy(saved, tmp_path):
    return Path(shutil.copytree(saved("gpt2"), tmp_path / "model"))


def load_all(folder):
    files = find_model(str(folder))
    load_tokenizer(files)
    load_model(files, "float32", CPU)


def test_no_such_model(tmp_path):
    with pytest.raises(DataError, match="no such model folder"):
        find_model(str(tmp_path / "none"))
    with pytest.raises(DataError, match="no such model folder"):
        find_model("a/b/c")
    with pytest.raises(DataError, match="hub cannot be reached"):
        find_model("nobody/nothing")


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("config.json", "no config.json"),
        ("model.safetensors", "weights are missing"),
        ("tokenizer.json", "no tokenizer"),
    ],
)
def test_a_folder_that_lacks_something(copy, missing, message):
    (copy / missing).unlink()
    with pytest.raises(DataError, match=message):
        find_model(str(copy))


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_damaged_files(copy, name):
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError):
        load_all(copy)


def test_weights_that_are_not_all_there(copy):
    from safetensors.torch import load_file

    state = load_file(copy / "model.safetensors")
    save_file({name: state[name] for name in state if "h.1." not in name}, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match="the weights lack"):
        load_model(find_model(str(copy)), "float32", CPU)


def test_an_index_does_not_lead_out_of_the_folder(copy):
    index = {"weight_map": {"wte": "../other.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    find_model(str(copy))  # the whole file is read
    (copy / "model.safetensors").unlink()
    with pytest.raises(DataError, match="malformed"):
        find_model(str(copy))


def sharded(folder, seed):
    """The tiny GPT-2 with other weights, in shards."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(CONFIGS["gpt2"])
    model.save_pretrained(folder, max_shard_size="40KB")
    return model.transformer.wte.weight.detach()


def weights_of(folder):
    return load_model(find_model(str(folder)), "float32", CPU).model.transformer.wte.weight


def test_the_files_that_are_read_are_fingerprinted(copy):
    """transformers reads what config.json names, else the one file, else the shards."""
    whole = weights_of(copy)
    before = find_model(str(copy)).fingerprint()
    shards = sharded(copy, 3)
    (copy / "model.safetensors").unlink()
    assert torch.equal(weights_of(copy), shards)
    assert find_model(str(copy)).fingerprint() != before
    model = AutoModelForCausalLM.from_pretrained(copy)
    with torch.no_grad():
        model.transformer.wte.weight.add_(1)
    save_file({name: each.contiguous() for name, each in model.state_dict().items() if name != "lm_head.weight"},
              copy / "model.safetensors", {"format": "pt"})  # fmt: skip
    found = find_model(str(copy))
    assert [path.name for path in found.weights] == ["model.safetensors"]
    assert torch.equal(weights_of(copy), shards + 1)
    with torch.no_grad():
        model.transformer.wte.weight.add_(1)
    save_file({name: each.contiguous() for name, each in model.state_dict().items() if name != "lm_head.weight"},
              copy / "other.safetensors", {"format": "pt"})  # fmt: skip
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "transformers_weights": "other.safetensors"}))
    named = find_model(str(copy))
    assert [path.name for path in named.weights] == ["other.safetensors"]
    assert torch.equal(weights_of(copy), shards + 1 + 1)
    assert not torch.equal(weights_of(copy), whole)
    assert named.fingerprint() != found.fingerprint()


def test_fields_that_the_class_does_not_have_are_named(copy, caplog):
    """What is meant by them does not reach the model, whose ranks are then another one's."""
    path = copy / "config.json"
    config = json.loads(path.read_text())
    load_model(find_model(str(copy)), "float32", CPU)
    path.write_text(json.dumps({**config, "n_ctx": 64, "task_specific_params": {"a": 1}, "unset": None, "off": False}))
    load_model(find_model(str(copy)), "float32", CPU)
    assert "does not use" not in caplog.text
    path.write_text(json.dumps({**config, "alibi": True, "auto_map": {"AutoModelForCausalLM": "mine.Mine"}}))
    load_model(find_model(str(copy)), "float32", CPU)
    assert "GPT2LMHeadModel does not use what config.json says by alibi, auto_map: ranks are of" in caplog.text


def test_fields_inside_of_fields_are_named_too():
    rope = {"rope_type": "linear", "factor": 2.0, "turn": 3.0}
    layers = {"full_attention": rope, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "twist": 1}}
    assert passed_over({"rope_scaling": {"type": "linear", "factor": 2.0}}, LlamaConfig()) == []
    assert passed_over({"rope_parameters": rope}, LlamaConfig()) == ["rope_parameters.turn"]
    found = passed_over({"text_config": {"rope_parameters": layers, "sharpen": 2}}, Gemma3Config())
    # as Qwen 3's mixtures read head_dim, which their class does not have
    assert passed_over({"head_dim": 24}, Qwen3MoeConfig(), 'getattr(config, "head_dim", None)') == []
    assert passed_over({"head_dim": 24}, Qwen3MoeConfig()) == ["head_dim"]
    assert found == [f"text_config.{name}" for name in ("rope_parameters.turn", "rope_parameters.twist", "sharpen")]


def test_files_that_transformers_would_read_instead(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "configuration_files": ["config.4.0.0.json"]}))
    with pytest.raises(DataError, match="configuration_files"):
        find_model(str(copy))
    (copy / "config.json").write_text(json.dumps({**config, "transformers_weights": "../other.safetensors"}))
    with pytest.raises(DataError, match="names no file of weights"):
        find_model(str(copy))
    (copy / "config.json").write_text(json.dumps(config))
    shutil.copy(copy / "model.safetensors", copy / "shard-00000-model-00001-of-00001.safetensors")
    with pytest.raises(DataError, match=r"torch\.distributed"):
        find_model(str(copy))


def test_the_tokenizer_for_this_version_is_fingerprinted(copy):
    first = find_model(str(copy)).tokenizer_fingerprint()
    shutil.copy(copy / "tokenizer.json", copy / "tokenizer.4.0.0.json")
    config = json.loads((copy / "tokenizer_config.json").read_text())
    config["fast_tokenizer_files"] = ["tokenizer.4.0.0.json", "tokenizer.99.0.0.json"]
    (copy / "tokenizer_config.json").write_text(json.dumps(config))
    second = find_model(str(copy)).tokenizer_fingerprint()
    raw = json.loads((copy / "tokenizer.4.0.0.json").read_text())
    raw["pre_tokenizer"]["use_regex"] = False
    (copy / "tokenizer.4.0.0.json").write_text(json.dumps(raw))
    assert len({first, second, find_model(str(copy)).tokenizer_fingerprint()}) == 3


def test_fingerprints_follow_the_contents(copy, saved):
    first = find_model(str(saved("gpt2")))
    assert find_model(str(copy)).fingerprint() == first.fingerprint()
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "layer_norm_epsilon": 1e-3}))
    assert find_model(str(copy)).fingerprint() != first.fingerprint()
    assert find_model(str(copy)).tokenizer_fingerprint() == first.tokenizer_fingerprint()


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
    there = "There is: checkpoint-500, checkpoint-1000."
    for model, revision, what in (
        (run, "main", "no checkpoint main"),
        (run, "../run/checkpoint-500", "no checkpoint"),
        (run, None, "no config.json"),
    ):
        with pytest.raises(DataError, match=what) as refused:
            find_model(str(model), revision)
        assert there in (refused.value.remedy or "")
    with pytest.raises(DataError, match="no checkpoint main"):
        find_model(str(copy), "main")


def test_longest_input():
    assert longest_input({"n_positions": 1024}) == 1024
    assert longest_input({"text_config": {"max_position_embeddings": 7}}) == 7
    assert longest_input({}) is None
