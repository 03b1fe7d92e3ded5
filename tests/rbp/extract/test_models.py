"""Folders of models: what is read and fingerprinted, and what is refused or named."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tiny import CONFIGS
from transformers import AutoModelForCausalLM

from rbp.errors import DataError
from rbp.extract.models import find_model, load_model

CPU = torch.device("cpu")


@pytest.fixture
def copy(saved, tmp_path):
    return Path(shutil.copytree(saved("gpt2"), tmp_path / "model"))


def load(folder):
    return load_model(find_model(str(folder)), "float32", CPU)


def change(path, **fields):
    """A file of JSON with some fields set."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


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
    with pytest.raises(DataError, match=r"no checkpoint main(.|\n)*There is: checkpoint-500, checkpoint-1000\."):
        find_model(str(run), "main")
