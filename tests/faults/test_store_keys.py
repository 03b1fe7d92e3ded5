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

WINDOWS = protocol("windows", length=64)


def key(model: Path, corpus: str, chosen: Protocol = WINDOWS, revision: str | None = None, **settings: object) -> dict:
    """The key of a measurement."""
    found = find_model(str(model))
    found = dataclasses.replace(found, revision=revision) if revision else found
    files = extraction._Model(found, Settings(**settings), torch.device("cpu"))
    return extraction._key(files, open_corpus(corpus), chosen)


def same(one: dict[str, object], other: dict[str, object]) -> bool:
    """Whether two keys are of one store."""
    return measurement_digest(one) == measurement_digest(other)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return str(tiny.write_texts(tmp_path_factory.mktemp("texts") / "mine.jsonl", tiny.texts(4)))


@pytest.fixture(scope="module")
def plain(model, corpus):
    return key(model, corpus)


SETTINGS = {"dtype": "bfloat16", "backend": "reference", "vocabulary": 299, "round_logits": "bfloat16"}
NOT_IN_THE_KEY = {  # what these do to ranks is in other entries
    *("device", "devices", "batch", "revision", "fields", "family", "training"),
}
PROTOCOL = {
    "name": "authors",
    "length": 63,
    "context": 31,
    "documents": 3,
    "seed": 7,
    "tokens": 50,
    "pack": 5,
    "bos": "always",
    "special": "text",
}


def test_another_setting_protocol_or_revision_is_another_store(model, corpus, plain):
    assert {field.name for field in dataclasses.fields(Settings)} == SETTINGS.keys() | NOT_IN_THE_KEY
    for name, value in SETTINGS.items():
        assert not same(key(model, corpus, **{name: value}), plain), name
    for field in dataclasses.fields(Protocol):
        changed = dataclasses.replace(WINDOWS, **{field.name: PROTOCOL[field.name]})
        assert not same(key(model, corpus, changed), plain), field.name
    assert not same(key(model, corpus, revision="a" * 40), plain)


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


def test_another_corpus_by_a_letter_a_field_or_an_order(model, plain, tmp_path):
    texts = tiny.texts(4)
    for number, documents in enumerate(([*texts[:3], texts[3] + "!"], texts[::-1], texts[:3], [*texts, ""])):
        other = tiny.write_texts(tmp_path / f"{number}.jsonl", documents)
        assert not same(key(model, str(other)), plain)
    again = tiny.write_texts(tmp_path / "same.jsonl", texts)  # the same text by another name is the same
    assert same(key(model, str(again)), plain)


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
    settings = Settings(backend="reference")
    (first,) = extract([str(model)], [corpus], one, tmp_path / "out", settings)
    (second,) = extract([str(model)], [corpus], other, tmp_path / "other", settings)
    shutil.move(first, tmp_path / "out" / second.name)
    with pytest.raises(DataError, match="another measurement than its name says"):
        extract([str(model)], [corpus], other, tmp_path / "out", settings)
