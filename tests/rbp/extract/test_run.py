"""Whole measurements: what a store holds, resumes, shards, kills, and what goes wrong."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from commands import here
from tiny import texts

from rbp.errors import DataError
from rbp.extract import extraction
from rbp.extract.extraction import Settings, extract, extract_on_gpus
from rbp.extract.protocol import protocol
from rbp.extract.store import SCHEMA, Store, open_store

WINDOWS = protocol("windows", length=64, context=32, pack=4)
QUICK = Settings(backend="reference")


@pytest.fixture
def corpus(write_corpus):
    return str(write_corpus(texts(12)))


def parts(folder):
    return {path.name: path.read_bytes() for path in (Path(folder) / "parts").iterdir()}


def test_what_a_store_holds(saved, corpus, tmp_path):
    (folder,) = extract([str(saved("gpt2"))], [corpus], WINDOWS, tmp_path / "out", QUICK)
    found = open_store(folder)
    tokens = found.ranks()
    assert list(tokens) == ["document", "position", "token", "greater", "equal", "nll"]
    assert all(parquet.read_table(part).schema.equals(SCHEMA) for part in (folder / "parts").iterdir())
    with pytest.raises(arrow.ArrowInvalid, match="not in range"):
        Store(folder).write(1, {name: np.full(9, 2**31 if name == "token" else 1) for name in SCHEMA.names})
    assert len(tokens) == found.tokens
    assert (tokens["position"] >= 1).all()
    assert not tokens.duplicated(["document", "position"]).any()
    assert (tokens["equal"] >= 1).all()
    assert (tokens["greater"] + tokens["equal"]).max() <= found.vocabulary
    assert (found.dataset, found.family, found.model) == ("mine", "gpt2", str(saved("gpt2")))
    key = found.manifest["key"]
    assert {"weights", "revision", "tokenizer", "corpus", "protocol", "dtype", "vocabulary"} < key.keys()
    assert {"round_logits", "backend", "device", "precision"} < key.keys()
    assert {"versions", "begun", "finished", "tokens_per_second"} < found.manifest["about"].keys()


def test_a_rerun_does_nothing(saved, corpus, tmp_path, monkeypatch):
    arguments = ([str(saved("gpt2"))], [corpus], WINDOWS, tmp_path / "out", QUICK)
    (folder,) = extract(*arguments)
    manifest = (folder / "manifest.json").read_bytes()
    monkeypatch.setattr(extraction, "load_model", None)  # not even the model is loaded
    assert extract(*arguments) == [folder]
    assert (folder / "manifest.json").read_bytes() == manifest
    extract(*arguments[:4], Settings(backend="reference", family="mine"))  # a label is no reason to measure again
    assert open_store(folder).family == "mine"
    (folder / "manifest.json").write_text(json.dumps({**json.loads(manifest), "format": 99}))
    with pytest.raises(DataError, match="another version"):
        open_store(folder)


def test_resumed_and_sharded_stores_are_the_same(saved, corpus, tmp_path, caplog):
    model = str(saved("neox"))
    (whole,) = extract([model], [corpus], WINDOWS, tmp_path / "whole", QUICK)
    for i in (3, 1, 2):
        settings = Settings(backend="reference", batch=i)
        (sharded,) = extract([model], [corpus], WINDOWS, tmp_path / "sharded", settings, (i, 3))
    assert parts(sharded) == parts(whole)
    assert open_store(sharded).ranks().equals(open_store(whole).ranks())

    names = sorted(parts(whole))
    (sharded / "parts" / names[0]).unlink()
    (sharded / "parts" / names[1]).write_bytes(b"PAR1")
    altered = bytearray((sharded / "parts" / names[2]).read_bytes())
    altered[40] ^= 1
    (sharded / "parts" / names[2]).write_bytes(altered)
    (sharded / "parts" / ".00001.tmp").write_bytes(b"half")
    caplog.set_level("INFO")
    extract([model], [corpus], WINDOWS, tmp_path / "sharded", QUICK)
    assert parts(sharded) == parts(whole)
    assert caplog.text.count("damaged or left over") == 2
    assert open_store(sharded).problems() == []


def test_shards_in_processes(saved, corpus, tmp_path, monkeypatch, in_this_process):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # which each shard sets
    monkeypatch.setattr(extraction, "say_on_stderr", lambda: None)
    out = tmp_path / "out"
    model, chosen = [str(saved("gpt2"))], protocol("windows", length=64, pack=4)
    extract_on_gpus(model, [corpus], chosen, out, QUICK, ["", ""])
    (folder,) = out.iterdir()
    (whole,) = extract(model, [corpus], chosen, tmp_path / "whole", QUICK)
    assert parts(folder) == parts(whole)
    assert open_store(folder).manifest["complete"]


def test_processes_of_a_launcher_take_their_shares(saved, corpus, tmp_path, monkeypatch):
    """Two processes of torchrun make one store between them, of the same bytes as one process; so do tasks of srun."""
    asked = ["extract", "--model", str(saved("neox")), "--corpus", corpus, "--protocol", "windows"]
    asked += ["--length", "64", "--pack", "4", "--out"]
    alone, launched, tasks = (str(tmp_path / name) for name in ("alone", "launched", "tasks"))
    done = [here(*asked, alone)]
    done += [here(*asked, tasks, "--shard", shard) for shard in ("2/2", "1/2")]
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        done.append(here(*asked, launched))
    assert not any(each.returncode for each in done)
    (whole,), *others = (list(Path(out).iterdir()) for out in (alone, launched, tasks))
    for (shared,) in others:
        assert parts(shared) == parts(whole)
        assert open_store(shared).manifest["complete"]


def test_a_shard_whose_process_fails_is_named(saved, corpus, tmp_path, monkeypatch):
    ended = "its process was ended by signal 9"
    monkeypatch.setattr(extraction, "run_tasks", lambda todo, *_: {todo[1].name: ended})
    with pytest.raises(DataError, match=f"shard 2 of 2 failed: {ended}"):
        extract_on_gpus([str(saved("gpt2"))], [corpus], WINDOWS, tmp_path / "out", QUICK, ["0", "1"])


def test_another_models_tokenizer(saved, corpus, tmp_path):
    folder = Path(shutil.copytree(saved("gpt2"), tmp_path / "model"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] = {word: i + 200 if i else 0 for word, i in tokenizer["model"]["vocab"].items()}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(DataError, match="another model's"):
        extract([str(folder)], [corpus], WINDOWS, tmp_path / "out", QUICK)
