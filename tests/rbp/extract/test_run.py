"""Whole measurements: what a store holds and is named by, how it resumes, and what is done again if damaged."""

import dataclasses
import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from commands import here, refused
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tiny import texts, write_texts

from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract import extraction
from rbp.extract.extraction import extract, extract_on_gpus
from rbp.io import write_json
from rbp.measurements import open_source
from rbp.models.find import find_model
from rbp.models.load import load_tokenizer
from rbp.models.training import Training
from rbp.store import measurement_digest, open_store, read_manifest
from rbp.texts.corpora import open_corpus
from rbp.texts.protocol import Protocol, protocol

WINDOWS, TEXTS = protocol("windows", length=64, context=32, pack=2), texts(12, longest=60)


@pytest.fixture(scope="module")
def measured(saved, tmp_path_factory):
    """The model, the corpus, and the store of a measurement in one go."""
    folder = tmp_path_factory.mktemp("whole")
    model, corpus = str(saved("gpt2")), str(write_texts(folder / "mine.jsonl", TEXTS))
    (whole,) = extract([model], [corpus], WINDOWS, folder / "out", Settings())
    return model, corpus, whole


@pytest.fixture
def again(measured, tmp_path):
    """again(…): the folder of the same measurement, gone on with in a copy of the store."""
    model, corpus, whole = measured
    shutil.copytree(whole, tmp_path / "out" / whole.name)
    return lambda more=None: extract([model], [corpus], WINDOWS, tmp_path / "out", more or Settings())[0]


def parts(folder):
    return {path.name: path.read_bytes() for path in (Path(folder) / "parts").iterdir()}


def test_logits_without_a_token_and_documents_without_a_score_are_told(saved, tmp_path):
    model, corpus, out = saved("gpt2"), write_texts(tmp_path / "c.jsonl", [*TEXTS[:2], "", "a"]), tmp_path / "out"
    tokens = len(load_tokenizer(find_model(str(model))))
    command = ["extract", "--model", str(model), "--corpus", str(corpus), "--length", "64", "--out"]
    every = here(*command, str(out / "all"))
    assert f"{320 - tokens} of 320 logits belong to no token, and count (not with --vocab tokenizer)" in every.stderr
    assert "2 of 4 documents have no scored token" in every.stderr
    assert "belong to no token" in here("ranks", "summary", every.stdout.strip()).stderr
    some = here(*command, str(out / "some"), "--vocab", "tokenizer")
    assert "belong to no token" not in some.stderr
    assert open_store(some.stdout.strip()).vocabulary == tokens
    refused(here(*command, str(out / "none"), "--vocab", "321"), "--vocab")


def test_a_rerun_does_nothing_but_take_labels_and_what_is_known_of_the_training(again, measured, tmp_path, monkeypatch):
    before = (measured[2] / "manifest.json").read_bytes()
    monkeypatch.setattr(extraction, "load_model", None)  # not even the model is loaded
    folder = again()
    assert (folder / "manifest.json").read_bytes() == before
    assert open_store(folder).training == Training()
    known = Training(training_tokens=9000, step=30)
    (tmp_path / "beside.csv").write_text(f"model,training_tokens,step\n{Path(measured[0]).name},9000,30\n")
    monkeypatch.setattr("rbp.models.training.TABLE", str(tmp_path / "beside.csv"))
    assert again(Settings(family="mine")) == folder
    assert (open_store(folder).family, open_store(folder).training) == ("mine", known)
    assert parts(folder) == parts(measured[2])


@pytest.mark.long
def test_shards_in_any_order_and_in_processes_make_the_same_store(measured, tmp_path, monkeypatch, in_this_process):
    """Those of one machine, of torchrun's processes, and of srun's tasks."""
    model, corpus, whole = measured
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # which each shard sets
    extract_on_gpus([model], [corpus], WINDOWS, tmp_path / "processes", Settings(), ["", ""])
    asked = ["extract", "--model", model, "--corpus", corpus, "--length", "64"]
    monkeypatch.setattr("rbp.texts.protocol.protocol", partial(protocol, pack=2))
    tasks = [("--shard", f"{shard}/3", "--batch", str(shard)) for shard in (3, 1, 2)]
    done = [here(*asked, "--out", str(tmp_path / "tasks"), *task) for task in tasks]
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "0"):
        monkeypatch.setenv("RANK", rank)
        done.append(here(*asked, "--out", str(tmp_path / "launched")))
    assert not any(each.returncode for each in done)
    for name in ("processes", "tasks", "launched"):
        (shared,) = (tmp_path / name).iterdir()
        assert parts(shared) == parts(whole)
        assert open_store(shared).problems() == []


def test_another_models_tokenizer(measured, tmp_path):
    folder = Path(shutil.copytree(measured[0], tmp_path / "model"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"] = {word: i + 200 if i else 0 for word, i in tokenizer["model"]["vocab"].items()}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(DataError, match="another model's"):
        extract([str(folder)], [measured[1]], WINDOWS, tmp_path / "out", Settings())


DAMAGES = {
    "truncated": lambda data, at, length: data[:at],
    "zeros": lambda data, at, length: data[:at] + bytes(min(length, len(data) - at)) + data[at + length :],
    "longer": lambda data, at, length: data + bytes(length),
    "a bit": lambda data, at, length: data[:at] + bytes([data[at] ^ (1 << length % 8)]) + data[at + 1 :],
}


def damaged(data, how, place, length):
    return DAMAGES[how](data, min(int(place * len(data)), len(data) - 1), length)


@given(st.tuples(st.sampled_from(list(DAMAGES)), st.floats(0, 1), st.integers(1, 5000)), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(("a bit", 0.5, 1), True)
@example(("truncated", 1.0, 1), True)  # the line's end, which JSON does without
def test_a_damaged_file_is_never_served(measured, tmp_path, damage, of_manifest):
    store = measured[2]
    folder = tmp_path / str(len(list(tmp_path.iterdir())))  # what was read of a folder once is remembered
    shutil.copytree(store, folder)
    path = folder / "manifest.json" if of_manifest else next((folder / "parts").iterdir())
    before = path.read_bytes()
    path.write_bytes(damaged(before, *damage))
    if path.read_bytes() == before:
        return
    said = ""
    try:
        table = open_source(folder).table
    except DataError as error:
        said = str(error)
    if said:
        assert "again" in said, "the remedy"
        return
    # what JSON does not care for, a space for another, may be altered without being damage
    assert of_manifest
    assert json.loads(before) == json.loads(path.read_bytes())
    assert open_store(folder).ranks().equals(open_store(store).ranks())
    assert table.drop(columns="source").equals(open_source(store).table.drop(columns="source"))


def test_whatever_is_damaged_missing_or_left_over_is_done_again(again, measured, caplog):
    folder, before = again(), parts(measured[2])
    *some, missing = sorted(before)[:5]
    for name, how in zip(some, DAMAGES, strict=True):
        (folder / "parts" / name).write_bytes(damaged(before[name], how, 0.4, 60))
    (folder / "parts" / missing).unlink()
    (folder / "parts" / ".00001.tmp").write_bytes(b"half")
    manifest = read_manifest(folder)
    del manifest["checksum"]
    manifest["about"]["size"] += 1
    write_json(folder / "manifest.json", manifest)
    with pytest.raises(DataError, match=r"(?s)altered.*Run the command that made it again"):
        open_store(folder)
    again()
    assert open_store(folder).size == manifest["about"]["size"] - 1
    assert caplog.text.count("damaged or left over: done again") == 4
    assert parts(folder) == before
    assert open_store(folder).problems() == []


@pytest.mark.parametrize("tokens", [None, 100])
def test_a_plain_file_is_read_whole_unless_asked_otherwise_and_it_is_said(saved, tmp_path, tokenizer, tokens):
    path, whole = tmp_path / "mine.txt", " ".join(texts(30, longest=60))
    path.write_text(whole)
    asked = ("extract", "--model", str(saved("gpt2")), "--corpus", str(path))
    done = here(*asked, *(("--tokens", str(tokens)) if tokens else ()), root=tmp_path)
    store, ids = open_store(done.stdout.strip()), tokenizer(whole)["input_ids"]
    read = tokenizer.decode(ids[: tokens + 1]) if tokens else whole
    assert store.characters_read == (len(read), len(whole))
    assert store.ranks()["position"].tolist() == list(range(1, tokens + 1 if tokens else len(ids)))
    words = f"{len(read):,} of {len(whole):,} characters read" if tokens else "the whole text read"
    assert words in done.stderr
    assert (store.protocol["name"], store.protocol["length"]) == ("windows", 256)  # what the model reads
    refused(here(*asked, "--corpus", "humaneval", root=tmp_path), "--protocol")  # the paper's is not mixed with


def key(model, corpus, chosen=WINDOWS, revision=None, **settings):
    found = dataclasses.replace(find_model(str(model)), revision=revision)
    files = extraction.Opened(found, Settings(**settings), torch.device("cpu"))
    return extraction._key(files, open_corpus(str(corpus)), chosen)


SETTINGS = {"dtype": "bfloat16", "backend": "reference", "vocabulary": 299, "round_logits": "bfloat16"}
#: what these do to ranks is in other entries
NOT_IN_THE_KEY = {"device", "batch", "fields", "prompt", "family"}
PROTOCOL = {"name": "authors", "length": 63, "context": 31, "documents": 3, "seed": 7, "tokens": 50, "pack": 5}
PROTOCOL |= {"bos": "always", "special": "text", "score": ["special"]}


def test_another_setting_protocol_revision_or_text_is_another_store(measured, tmp_path):
    model, corpus, whole = measured
    assert {field.name for field in dataclasses.fields(Settings)} == SETTINGS.keys() | NOT_IN_THE_KEY
    assert {field.name for field in dataclasses.fields(Protocol)} == PROTOCOL.keys()
    others = [*TEXTS[:-1], TEXTS[-1] + "!"], TEXTS[::-1], TEXTS[:-1], [*TEXTS, ""]
    keys = [
        *(key(model, corpus, **{name: value}) for name, value in SETTINGS.items()),
        *(key(model, corpus, dataclasses.replace(WINDOWS, **{name: value})) for name, value in PROTOCOL.items()),
        key(model, corpus, revision="a" * 40),
        *(key(model, write_texts(tmp_path / f"{i}.jsonl", documents)) for i, documents in enumerate(others)),
    ]
    digest = open_store(whole).manifest["digest"]
    assert len({digest, *map(measurement_digest, keys)}) == 1 + len(keys)
    same = key(model, write_texts(tmp_path / "same.jsonl", TEXTS))  # by another name
    assert measurement_digest(same) == digest
