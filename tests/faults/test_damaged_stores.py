"""Fault 3: a part or a manifest that is truncated, zero-filled, altered in a bit, or put in the place of another."""

import json
import random
import shutil
from pathlib import Path

import pytest
import tiny
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from toy_stores import make_store

from companion.project import ROOT
from rbp.errors import DataError
from rbp.extract.extraction import Settings, extract
from rbp.extract.protocol import protocol
from rbp.extract.store import Store, open_store, read_manifest, sealed
from rbp.io import write_json
from rbp.measurements import open_source


def damaged(data: bytes, how: str, place: float, length: int) -> bytes:
    """The data with one damage."""
    at = min(int(place * len(data)), len(data) - 1)
    if how == "truncated":
        return data[:at]
    if how == "zeros":
        return data[:at] + bytes(min(length, len(data) - at)) + data[at + length :]
    if how == "longer":
        return data + bytes(length)
    return data[:at] + bytes([data[at] ^ (1 << length % 8)]) + data[at + 1 :]


damages = st.tuples(st.sampled_from(["truncated", "zeros", "longer", "a bit"]), st.floats(0, 1), st.integers(1, 5000))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("whole") / "toy-store", [0, 3, 2, 9, 0, 1] * 50, [100, 200]).folder


@given(damages, st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(("a bit", 0.5, 1), True)
@example(("truncated", 1.0, 1), True)  # the line's end, which JSON does without
def test_a_damaged_file_is_never_served(store, tmp_path, damage, of_manifest):
    whole = open_store(store).ranks()
    folder = tmp_path / str(len(list(tmp_path.iterdir())))  # what was read of a folder once is remembered
    shutil.copytree(store, folder)
    path = folder / "manifest.json" if of_manifest else next((folder / "parts").iterdir())
    before = path.read_bytes()
    path.write_bytes(damaged(before, *damage))
    if path.read_bytes() == before:
        return
    try:
        found = open_source(folder).table
    except DataError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert str(folder) in said, "it is named"
        assert "again" in said, "and the remedy"
        return
    # what JSON does not care for, a space for another, may be altered without being damage
    assert of_manifest
    assert json.loads(before) == json.loads(path.read_bytes())
    assert open_store(folder).ranks().equals(whole)
    assert found.drop(columns="source").equals(open_source(store).table.drop(columns="source"))  # another folder


def test_a_part_in_the_place_of_another(store, tmp_path):
    folder = Path(shutil.copytree(store, tmp_path / "copy"))
    other = make_store(tmp_path / "other", [1] * 300, [100, 200]).folder
    (mine,), (foreign,) = (list((each / "parts").iterdir()) for each in (folder, other))
    shutil.copy(foreign, mine)
    with pytest.raises(DataError, match="truncated or altered"):
        open_store(folder).ranks()
    assert Store(folder).parts() == ({}, [mine])
    manifest = read_manifest(folder)
    del manifest["parts"][mine.name]
    write_json(folder / "manifest.json", sealed(manifest))
    with pytest.raises(DataError, match="altered"):
        open_store(folder)


def test_a_manifest_without_its_checksum_is_not_believed_and_what_made_it_seals_it(model, tmp_path):
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(4)))
    chosen = protocol("windows", length=64, context=32, pack=1)
    given_ = [str(model)], [corpus], chosen, tmp_path / "out", Settings(backend="reference")
    (folder,) = extract(*given_)
    ranks, manifest = open_store(folder).ranks(), read_manifest(folder)
    del manifest["checksum"]
    manifest["about"]["size"] += 1
    write_json(folder / "manifest.json", manifest)
    with pytest.raises(DataError, match=r"(?s)altered.*Run the command that made it again"):
        open_store(folder)
    extract(*given_)
    assert open_store(folder).size == manifest["about"]["size"] - 1
    assert open_store(folder).ranks().equals(ranks)


@pytest.mark.parametrize("how", ["truncated", "zeros", "a bit", "longer"])
def test_whatever_is_damaged_is_done_again(model, tmp_path, how, caplog):
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(5)))
    chosen = protocol("windows", length=64, context=32, pack=1)
    given_ = [str(model)], [corpus], chosen, tmp_path / "out", Settings(backend="reference")
    (folder,) = extract(*given_)
    before = {path.name: path.read_bytes() for path in (folder / "parts").iterdir()}
    rng = random.Random(how)  # noqa: S311
    for name in rng.sample(sorted(before), 2):
        (folder / "parts" / name).write_bytes(damaged(before[name], how, rng.random(), 60))
    manifest = folder / "manifest.json"
    manifest.write_bytes(damaged(manifest.read_bytes(), how, 0.3, 60))
    caplog.set_level("WARNING")
    extract(*given_)
    assert caplog.text.count("damaged or left over: done again") == 2
    assert {path.name: path.read_bytes() for path in (folder / "parts").iterdir()} == before
    assert open_store(folder).problems() == []


def test_the_ladder_s_own_stores_are_sealed():
    stores = [path.parent for path in (ROOT / "data" / "ladder" / "families-ranks").rglob("manifest.json")]
    assert stores
    for folder in stores:
        read_manifest(folder)
