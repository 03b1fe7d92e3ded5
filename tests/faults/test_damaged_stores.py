"""A part or a manifest that is truncated, zero-filled, altered in a bit, or put in the place of another."""

import json
import random
import shutil
from pathlib import Path

import pytest
import tiny
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from toy_stores import make_store

from rbp.errors import DataError
from rbp.extract.extraction import Settings, extract
from rbp.extract.protocol import protocol
from rbp.extract.store import open_store, read_manifest
from rbp.io import write_json
from rbp.measurements import open_source

DAMAGES = ["truncated", "zeros", "longer", "a bit"]


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


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("whole") / "toy-store", [0, 3, 2, 9, 0, 1] * 50, [100, 200]).folder


@given(st.tuples(st.sampled_from(DAMAGES), st.floats(0, 1), st.integers(1, 5000)), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(("a bit", 0.5, 1), True)
@example(("truncated", 1.0, 1), True)  # the line's end, which JSON does without
def test_a_damaged_file_is_never_served(store, tmp_path, damage, of_manifest):
    folder = tmp_path / str(len(list(tmp_path.iterdir())))  # what was read of a folder once is remembered
    shutil.copytree(store, folder)
    path = folder / "manifest.json" if of_manifest else next((folder / "parts").iterdir())
    before = path.read_bytes()
    path.write_bytes(damaged(before, *damage))
    if path.read_bytes() == before:
        return
    try:
        table = open_source(folder).table
    except DataError as error:
        said = str(error)
    else:
        said = ""
    if said:
        assert str(folder) in said
        assert "again" in said, "the remedy"
        return
    # what JSON does not care for, a space for another, may be altered without being damage
    assert of_manifest
    assert json.loads(before) == json.loads(path.read_bytes())
    assert open_store(folder).ranks().equals(open_store(store).ranks())
    assert table.drop(columns="source").equals(open_source(store).table.drop(columns="source"))


@pytest.fixture
def extracted(model, tmp_path):
    """A store, and what makes it again."""
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(8, longest=60)))
    chosen = protocol("windows", length=64, context=32, pack=1)

    def again() -> Path:
        return extract([str(model)], [corpus], chosen, tmp_path / "out", Settings(backend="reference"))[0]

    return again(), again


def test_a_manifest_without_its_checksum_is_not_believed_and_what_made_it_seals_it(extracted):
    folder, again = extracted
    ranks, manifest = open_store(folder).ranks(), read_manifest(folder)
    del manifest["checksum"]
    manifest["about"]["size"] += 1
    write_json(folder / "manifest.json", manifest)
    with pytest.raises(DataError, match=r"(?s)altered.*Run the command that made it again"):
        open_store(folder)
    again()
    assert open_store(folder).size == manifest["about"]["size"] - 1
    assert open_store(folder).ranks().equals(ranks)


def test_whatever_is_damaged_is_done_again(extracted, caplog):
    folder, again = extracted
    before = {path.name: path.read_bytes() for path in (folder / "parts").iterdir()}
    rng = random.Random(0)  # noqa: S311
    for name, how in zip(rng.sample(sorted(before), 4), DAMAGES, strict=True):
        (folder / "parts" / name).write_bytes(damaged(before[name], how, rng.random(), 60))
    manifest = folder / "manifest.json"
    manifest.write_bytes(damaged(manifest.read_bytes(), "zeros", 0.3, 60))
    caplog.set_level("WARNING")
    again()
    assert caplog.text.count("damaged or left over: done again") == 4
    assert {path.name: path.read_bytes() for path in (folder / "parts").iterdir()} == before
    assert open_store(folder).problems() == []
