"""One model over several places, here memory and disk, beside the same model in one."""

import sys

import pandas as pd
import pytest
import tiny
import torch
from commands import here, refused
from transformers import AutoModelForCausalLM

from rbp.errors import DataError
from rbp.extract import extraction
from rbp.extract.devices import limits
from rbp.extract.extraction import Settings, extract
from rbp.extract.forward import Ranker
from rbp.extract.models import Loaded, find_model, load_model
from rbp.extract.protocol import plan_rows, protocol
from rbp.extract.store import open_store

CPU = torch.device("cpu")
HOW = protocol("windows", length=96, pack=4)


@pytest.fixture
def corpus(tmp_path):
    return str(tiny.write_texts(tmp_path / "mine.jsonl", tiny.texts(12, seed=3)))


def some_memory(kind):
    """Bytes for the embedding and one layer, and less than all."""
    total = sum(each.numel() * 4 for each in tiny.random_model(kind).parameters())
    return {"cpu": int(total * 0.6)}


@pytest.mark.parametrize("kind", ["neox", "opt", "mixtral"])
def test_ranks_are_those_of_a_model_in_one_place(tmp_path, corpus, monkeypatch, saved, kind):
    model, asked = str(saved(kind)), []
    monkeypatch.setattr(extraction, "limits", lambda reserved: asked.append(reserved) or some_memory(kind))
    (one,) = extract([model], [corpus], HOW, tmp_path / "one")
    (several,) = extract([model], [corpus], HOW, tmp_path / "several", Settings(devices="auto"))
    one, several = open_store(one), open_store(several)
    pd.testing.assert_frame_equal(several.ranks(), one.ranks(), rtol=0, atol=1e-5)
    for column in ("token", "greater", "equal"):
        assert several.ranks()[column].equals(one.ranks()[column])
    about, other = several.manifest["about"], one.manifest["about"]
    assert "disk" in about["places"]
    assert "places" not in other
    assert (about["head"], about["size"]) == (other["head"], other["size"])
    assert asked == [4 * tiny.VOCAB * 32]
    assert several.sampled.tokens > 0  # by the model in several places itself


def test_what_fits_into_one_place_is_in_one(tmp_path, corpus, saved):
    (store,) = extract([str(saved("neox"))], [corpus], HOW, tmp_path / "ranks", Settings(devices="auto"))
    assert "places" not in open_store(store).manifest["about"]
    assert 0 < limits(10)["cpu"] <= limits(0)["cpu"] * 1.5


def test_a_model_in_memory_that_was_spread_by_its_user(tmp_path, corpus, saved):
    """Its parts are fetched one row at a time; a head that waits is not read by the ranking."""
    folder = saved("neox")
    how = {"device_map": "auto", "max_memory": some_memory("neox"), "offload_folder": tmp_path}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **how).eval()
    language = load_model(Loaded("mine", model, tiny.make_tokenizer()), "float32", CPU)
    assert "disk" in language.places
    rows = plan_rows(extraction.open_corpus(corpus), tiny.make_tokenizer(), HOW).rows[:6]
    spread, plain = (
        Ranker(each, "reference", 8) for each in (language, load_model(find_model(str(folder)), "float32", CPU))
    )
    for ranker in (spread, plain):
        ranker.check(rows)
    assert spread.head is None
    assert spread.probe.steady
    assert spread.rank(rows).greater.tolist() == plain.rank(rows).greater.tolist()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--devices", "0,1"], "cannot spread a model over '0,1'"),
        (["--devices", "auto", "--device", "cpu"], "all devices are asked for, and the device cpu"),
    ],
)
def test_what_is_not_to_be_had(tmp_path, corpus, saved, options, said):
    asked = ("extract", "--model", str(saved("neox")), "--corpus", corpus, "--out", str(tmp_path / "ranks"))
    refused(here(*asked, *options), said)
    assert not (tmp_path / "ranks").exists()


def test_processes_of_a_launcher_do_not_each_take_all(corpus, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused(here("extract", "--model", "any", "--corpus", corpus, "--devices", "auto"), "each of several processes")


def test_without_accelerate_the_extra_is_named(tmp_path, corpus, saved, monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(DataError, match=r"rbp\[devices\]"):
        extract([str(saved("neox"))], [corpus], HOW, tmp_path / "ranks", Settings(devices="auto"))
    assert not (tmp_path / "ranks").exists()
