"""Whatever determines the ranks is in the store's name, so another measurement never finds the same store."""

import dataclasses
import shutil
from pathlib import Path

import pytest
import tiny
import torch

from rbp.errors import DataError
from rbp.extract import extraction
from rbp.extract.corpora import open_corpus
from rbp.extract.extraction import Settings, extract
from rbp.extract.models import find_model
from rbp.extract.protocol import Protocol, protocol
from rbp.extract.store import find_place, measurement_digest

WINDOWS, TEXTS = protocol("windows", length=64), tiny.texts(4, longest=60)


def key(model, corpus, chosen=WINDOWS, revision=None, **settings):
    """The key of a measurement."""
    found = find_model(str(model))
    found = dataclasses.replace(found, revision=revision) if revision else found
    files = extraction._Model(found, Settings(**settings), torch.device("cpu"))
    return extraction._key(files, open_corpus(str(corpus)), chosen)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return str(tiny.write_texts(tmp_path_factory.mktemp("texts") / "mine.jsonl", TEXTS))


@pytest.fixture(scope="module")
def model(saved):
    return saved("gpt2")


@pytest.fixture(scope="module")
def plain(model, corpus):
    return key(model, corpus)


SETTINGS = {"dtype": "bfloat16", "backend": "reference", "vocabulary": 299, "round_logits": "bfloat16"}
#: what these do to ranks is in other entries
NOT_IN_THE_KEY = {"device", "devices", "batch", "revision", "fields", "family", "training"}
PROTOCOL = {"name": "authors", "length": 63, "context": 31, "documents": 3, "seed": 7, "tokens": 50, "pack": 5}
PROTOCOL |= {"bos": "always", "special": "text"}


def test_another_setting_protocol_revision_or_text_is_another_store(model, corpus, plain, tmp_path):
    assert {field.name for field in dataclasses.fields(Settings)} == SETTINGS.keys() | NOT_IN_THE_KEY
    assert {field.name for field in dataclasses.fields(Protocol)} == PROTOCOL.keys()
    others = [*TEXTS[:3], TEXTS[3] + "!"], TEXTS[::-1], TEXTS[:3], [*TEXTS, ""]
    keys = [
        *(key(model, corpus, **{name: value}) for name, value in SETTINGS.items()),
        *(key(model, corpus, dataclasses.replace(WINDOWS, **{name: value})) for name, value in PROTOCOL.items()),
        key(model, corpus, revision="a" * 40),
        *(key(model, tiny.write_texts(tmp_path / f"{i}.jsonl", documents)) for i, documents in enumerate(others)),
    ]
    assert len({measurement_digest(each) for each in [plain, *keys]}) == 1 + len(keys)
    same = key(model, tiny.write_texts(tmp_path / "same.jsonl", TEXTS))  # by another name
    assert measurement_digest(same) == measurement_digest(plain)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_one_bit_of_the_weights_or_of_the_tokenizer(model, plain, name, tmp_path):
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    data = bytearray((folder / name).read_bytes())
    data[data.rindex(b"a") if name != "model.safetensors" else len(data) - 3] ^= 1
    (folder / name).write_bytes(data)
    files = find_model(str(folder))
    found = {"weights": files.fingerprint(), "tokenizer": files.tokenizer_fingerprint()}
    changed = {which for which in found if found[which] != plain[which]}
    assert changed == {"weights" if name == "model.safetensors" else "tokenizer"}


def test_two_names_that_look_alike_do_not_share_a_store(tmp_path):
    """The folder's name is shortened to what every file system takes; the digest is what is looked for."""
    stores = [find_place(tmp_path, "a/b c", {"x": 1}), find_place(tmp_path, "a-b-c", {"x": 2})]
    assert stores[0].folder != stores[1].folder
    for store, x in zip(stores, (1, 2), strict=True):
        store.begin({"x": x}, {}, 1, 1)
    assert find_place(tmp_path, "renamed", {"x": 1}) == stores[0]


def test_a_store_in_the_place_of_another_is_not_gone_on_with(model, corpus, tmp_path):
    """Someone gives a store's folder the name of another measurement."""
    one, other = (protocol("windows", length=length, pack=2) for length in (64, 48))
    (first,) = extract([str(model)], [corpus], one, tmp_path, Settings())
    second = find_place(tmp_path, first.name.rpartition("-")[0], key(model, corpus, other)).folder
    shutil.move(first, second)
    with pytest.raises(DataError, match="another measurement than its name says"):
        extract([str(model)], [corpus], other, tmp_path, Settings())
