"""Adapters run beside the weights of their model: nothing is merged, but S counts as if it were.

All kinds of them: tests/slow/test_every_model.py.
"""

import json

import pytest
import torch
from adapters import adapter, survey_adapter

from rbp.errors import DataError
from rbp.extract.models import find_model, load_model

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:peft")


def load(folder):
    return load_model(find_model(str(folder)), "float32", torch.device("cpu"))


@pytest.mark.parametrize("kind", ["LORA", "IA3", "LOHA", "OFT", "layer_replication", "whole head", "on the embedding"])
def test_an_adapter_gives_the_bits_that_peft_gives(kind, tmp_path):
    """A merge rounds, and where layers share their weights it adds each one's change to all."""
    found = survey_adapter(kind, tmp_path)
    assert found.outcome == "exact", found.reason


def test_what_would_not_be_applied_as_it_is_meant_is_refused_by_name(tmp_path):
    adapter("LORA", tmp_path / "lora")
    path = tmp_path / "lora" / "adapter" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "turned": True, "untold": None}))
    with pytest.raises(DataError, match=r"peft does not know turned of adapter_config\.json"):
        load(path.parent)
    adapter("PROMPT_TUNING", tmp_path / "prompt")
    with pytest.raises(DataError, match=r"adds tokens before the text \(prompt tuning\)"):
        load(tmp_path / "prompt" / "adapter")


@pytest.mark.parametrize("kind", ["LORA", "LOHA"])
def test_an_adapter_that_its_base_holds_already_is_named(kind, tmp_path, caplog):
    merged = adapter(kind, tmp_path).merge_and_unload()
    load(tmp_path / "adapter")
    assert "merged into them" not in caplog.text
    merged.save_pretrained(tmp_path / "base")
    load(tmp_path / "adapter")
    assert "of what the adapter adds: if it was merged into them" in caplog.text
