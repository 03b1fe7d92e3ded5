import json
import shutil
from pathlib import Path

import pytest
import torch

from rbp.core.errors import DataError, ParameterError
from rbp.ranks.models import find_model, load_model, load_tokenizer
from rbp.ranks.protocols import longest_input

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
    from safetensors.torch import load_file, save_file

    state = load_file(copy / "model.safetensors")
    save_file({name: state[name] for name in state if "h.1." not in name}, copy / "model.safetensors", {"format": "pt"})
    with pytest.raises(DataError, match="the weights lack"):
        load_model(find_model(str(copy)), "float32", CPU)


def test_an_index_does_not_lead_out_of_the_folder(copy):
    index = {"weight_map": {"wte": "../other.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match="malformed"):
        find_model(str(copy))


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
