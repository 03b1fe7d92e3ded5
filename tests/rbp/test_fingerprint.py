"""Names of files by their contents, the index that spares hashing again, and files that change on the way."""

import hashlib
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tiny import texts, write_texts

from rbp import fingerprint
from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract import extraction
from rbp.extract.extraction import extract
from rbp.fingerprint import digest_bytes
from rbp.texts.protocol import protocol

WINDOWS = protocol("windows", length=64)


@pytest.fixture(autouse=True)
def index(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rbp" / "fingerprints.json"


@pytest.fixture
def large(tmp_path):
    """A file of an hour ago, large enough to be noted."""
    path = tmp_path / "weights.bin"
    path.write_bytes(np.random.default_rng(0).bytes(2**20 + 5))
    os.utime(path, (1e9, 1e9))
    return path


@pytest.fixture
def settled(monkeypatch):
    """All files were written a minute ago: `os.utime` does not set back when one was changed."""
    now = time.time_ns
    monkeypatch.setattr(fingerprint.time, "time_ns", lambda: now() + 60 * 10**9)


@pytest.fixture
def hashed(monkeypatch):
    """An item for each piece that is read from now on."""
    pieces = []
    monkeypatch.setattr(fingerprint, "sha256", lambda *data: [hashlib.sha256(*data), data or pieces.append("read")][0])
    return pieces


@pytest.mark.parametrize("size", [0, 64, 65, 150])
def test_a_file_is_named_by_its_pieces(tmp_path, monkeypatch, size):
    monkeypatch.setattr(fingerprint, "PIECE", 64)
    data = bytes(range(size))
    (tmp_path / "a").write_bytes(data)
    each = [hashlib.sha256(data[i : i + 64]).hexdigest() for i in range(0, max(size, 1), 64)]
    wanted = each[0] if len(each) == 1 else f"{hashlib.sha256(''.join(each).encode()).hexdigest()}-{len(each)}"
    assert fingerprint.fingerprint([tmp_path / "a"]) == digest_bytes(data) == wanted


def test_of_several_files_the_names_count_and_not_their_folder(tmp_path):
    def of(*names, folder):
        (tmp_path / folder).mkdir()
        for name, text in names:
            (tmp_path / folder / name).write_text(text)
        return fingerprint.fingerprint([tmp_path / folder / name for name, _ in names])

    first = of(("a", "1"), ("b", "2"), folder="x")
    assert first == of(("a", "1"), ("b", "2"), folder="y")
    others = [[("a", "2"), ("b", "1")], [("b", "1"), ("a", "2")], [("a", "12"), ("b", "")], [("a", "1"), ("c", "2")]]
    assert len({first, *(of(*each, folder=str(i)) for i, each in enumerate(others))}) == 5


@pytest.mark.usefixtures("settled")
def test_what_is_noted_is_not_hashed_again(large, tmp_path, hashed):
    name = fingerprint.fingerprint([large])
    assert len(hashed) == 1
    (tmp_path / "link").symlink_to(large)
    assert fingerprint.fingerprint([tmp_path / "link"]) == fingerprint.fingerprint([large]) == name
    assert len(hashed) == 1


def _other_byte_and_its_time(path, content):
    times = path.stat()
    with path.open("r+b") as stream:
        stream.write(b"x")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _longer(path, content):
    path.write_bytes(content + b"x")


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("change", [_other_byte_and_its_time, _longer])
def test_a_file_that_changes_is_hashed_again(large, hashed, change):
    before = fingerprint.fingerprint([large])
    change(large, large.read_bytes())
    assert fingerprint.fingerprint([large]) == hashlib.sha256(large.read_bytes()).hexdigest() != before
    assert len(hashed) == 2


def test_a_file_that_was_written_just_now_is_not_noted(large, index, hashed):
    """Within a tick of the clock it could be written again, and look the same."""
    large.touch()
    fingerprint.fingerprint([large])
    fingerprint.fingerprint([large])
    assert len(hashed) == 2
    assert not index.exists()


DAMAGES = {
    "cut short": lambda text: text[: len(text) // 2],
    "another form": lambda text: "[1, 2]",
    "another digest": lambda text: text.replace(json.loads(text)["files"].popitem()[1][-1], "0" * 64),
    "no entry": lambda text: json.dumps({**json.loads(text), "files": dict.fromkeys(json.loads(text)["files"], 1)}),
}


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_made_anew(large, index, hashed, damage):
    name = fingerprint.fingerprint([large])
    whole = index.read_text()
    index.write_text(DAMAGES[damage](whole))
    assert fingerprint.fingerprint([large]) == name
    assert len(hashed) == 2
    assert index.read_text() == whole


@pytest.mark.usefixtures("settled")
def test_the_index_forgets_files_that_are_gone_and_survives_many_writers(large, tmp_path, index):
    files = [Path(shutil.copy(large, tmp_path / str(i))) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert len({*pool.map(lambda path: fingerprint.fingerprint([path]), files)}) == 1
    for path in files:
        path.unlink()
    fingerprint.fingerprint([large])
    assert [*json.loads(index.read_text())["files"]] == [str(large)]


def test_a_file_that_is_missing_or_no_file(tmp_path):
    for name in ("missing", "."):
        with pytest.raises(DataError, match="cannot read the file"):
            fingerprint.fingerprint([tmp_path / name])


def test_a_file_that_grows_while_it_is_hashed(large, monkeypatch):
    monkeypatch.setattr(fingerprint, "sha256", lambda *data: [hashlib.sha256(*data), _longer(large, b"")][0])
    with pytest.raises(DataError, match="changed while it was read"):
        fingerprint.fingerprint([large])


# A training that overwrites its folder


@pytest.fixture
def model(saved, tmp_path):
    return Path(shutil.copytree(saved("gpt2"), tmp_path / "model"))


@pytest.fixture
def ranked(model, tmp_path):
    """ranked(out): the stores of the model on a text, in a folder of that name."""
    corpus = str(write_texts(tmp_path / "mine.jsonl", texts(3, longest=30)))
    return lambda out: extract([str(model)], [corpus], WINDOWS, tmp_path / out, Settings())


def _tokenizer(folder):
    (folder / "tokenizer.json").write_text((folder / "tokenizer.json").read_text() + "\n")


def _same_again(folder):
    """The same bytes in another file: nobody knows what it held meanwhile."""
    shutil.copy(folder / "model.safetensors", folder / "new")
    (folder / "new").replace(folder / "model.safetensors")


@pytest.mark.parametrize("change", [_tokenizer, _same_again])
def test_files_exchanged_between_fingerprint_and_loading(model, ranked, tmp_path, monkeypatch, change):
    load = extraction.load_model
    monkeypatch.setattr(extraction, "load_model", lambda *given: [change(model), load(*given)][1])
    with pytest.raises(DataError, match="changed while it was read"):
        ranked("out")
    assert not list(tmp_path.glob("out/*"))


def test_weights_that_are_written_into_while_they_are_ranked_by(model, ranked, monkeypatch):
    """Those of a file in the ranking's dtype are read from it: what is written there is what is ranked by."""
    path, rank = model / "model.safetensors", extraction.Ranker.rank_packs

    def changed(ranker, packs):
        with path.open("r+b") as stream:
            stream.seek(-64, os.SEEK_END)
            stream.write(b"\0" * 64)
        return rank(ranker, packs)

    monkeypatch.setattr(extraction.Ranker, "rank_packs", changed)
    with pytest.raises(DataError, match=r"changed while it was read"):
        ranked("out")


def test_weights_that_are_replaced_while_the_old_ones_are_ranked_by(model, ranked, monkeypatch):
    whole = ranked("whole")[0]
    rank = extraction.Ranker.rank_packs
    changed = lambda ranker, packs: [_same_again(model), rank(ranker, packs)][1]  # noqa: E731
    monkeypatch.setattr(extraction.Ranker, "rank_packs", changed)
    (store,) = ranked("out")
    assert {path.name for path in (store / "parts").iterdir()} == {path.name for path in (whole / "parts").iterdir()}
