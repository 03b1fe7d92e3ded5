"""No pickle is read, and no code of others is run: each trap leaves a trace, the canary, when it is sprung."""

import json
import pickle
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from rbp.errors import DataError
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer


@pytest.fixture
def canary(tmp_path):
    """What no trap may leave: it is looked for after each test."""
    path = tmp_path / "canary"
    yield path
    assert not path.exists()


@pytest.fixture
def bomb(canary):

    class Bomb:
        def __reduce__(self):
            return Path.touch, (canary,)

    return pickle.dumps(Bomb())


@pytest.fixture
def copy(model, tmp_path):
    return Path(shutil.copytree(model, tmp_path / "model"))


def load_all(folder: Path) -> None:
    files = find_model(str(folder))
    load_tokenizer(files)
    load_model(files, "float32", torch.device("cpu"))


INDICES = ["model.safetensors.index.json", "pytorch_model.bin.index.json"]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors", *INDICES])
def test_a_pickle_as_weights(copy, bomb, name):
    weights = copy / "pytorch_model.bin"
    weights.write_bytes(bomb)
    load_all(copy)  # beside weights it is not looked at
    (copy / "model.safetensors").unlink()
    if name in INDICES:
        (copy / name).write_text(json.dumps({"metadata": {}, "weight_map": {"wte": weights.name}}))
    else:
        weights.rename(copy / name)
    with pytest.raises(DataError):
        load_all(copy)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json"])
def test_a_pickle_as_a_tokenizer_s_file(copy, bomb, name):
    (copy / "tokenizer.json").unlink()
    (copy / name).write_bytes(bomb)
    with pytest.raises(DataError):
        load_tokenizer(find_model(str(copy)))


@pytest.mark.parametrize("own_type", [True, False], ids=["a type of its own", "a known type"])
def test_code_that_comes_with_a_model_is_not_run(copy, canary, own_type):
    """By its configuration or its tokenizer's; where transformers knows the type itself, it takes its own code."""
    trap = f"import pathlib\npathlib.Path({str(canary)!r}).touch()\nclass Config: pass\nclass Model: pass\n"
    for name in ("own.py", "configuration_own.py", "modeling_own.py", "tokenization_own.py", "__init__.py"):
        (copy / name).write_text(trap)
    auto = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model", "AutoModel": "own.Model"}
    model = {"auto_map": auto} | ({"model_type": "own", "architectures": ["Model"]} if own_type else {})
    tokenizer = {"auto_map": {"AutoTokenizer": ["own.Model", "own.Model"]}, "trust_remote_code": True}
    for name, fields in (("config.json", model), ("tokenizer_config.json", tokenizer | {"tokenizer_class": "Model"})):
        (copy / name).write_text(json.dumps(json.loads((copy / name).read_text()) | fields))
    with pytest.raises(DataError, match=r"\n") if own_type else suppress(DataError):  # with a remedy
        load_all(copy)
