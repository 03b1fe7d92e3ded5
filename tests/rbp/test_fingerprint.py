"""Names of files by their contents, the index that spares hashing again, and files that change on the way."""

import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from tiny import texts, write_texts

from rbp import fingerprint
from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract import extraction
from rbp.fingerprint import digest_bytes
from rbp.texts.protocol import protocol


@pytest.fixture(autouse=True)
def index(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rbp" / "fingerprints.json"


@pytest.fixture
def large(tmp_path):
    """A file that is large enough to be noted."""
    path = tmp_path / "weights.bin"
    path.write_bytes(np.random.default_rng(0).bytes(2**20 + 5))
    return path


@pytest.fixture
def settled(monkeypatch):
    """All files were written a minute ago: `os.utime` does not set back when one was changed."""
    now = time.time_ns
    monkeypatch.setattr(fingerprint.time, "time_ns", lambda: now() + 60 * 10**9)


@pytest.mark.parametrize("size", [0, 64, 65, 150])
def test_a_file_is_named_by_its_pieces(tmp_path, monkeypatch, size):
    monkeypatch.setattr(fingerprint, "PIECE", 64)
    data = bytes(range(size))
    (tmp_path / "a").write_bytes(data)
    each = [hashlib.sha256(data[i : i + 64]).hexdigest() for i in range(0, max(size, 1), 64)]
    wanted = each[0] if len(each) == 1 else f"{hashlib.sha256(''.join(each).encode()).hexdigest()}-{len(each)}"
    assert fingerprint.fingerprint([tmp_path / "a"]) == digest_bytes(data) == wanted


def other_byte(path):
    """Another first byte, and the time of writing as before."""
    times = path.stat()
    with path.open("r+b") as stream:
        stream.write(b"x")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.usefixtures("settled")
def test_what_is_noted_is_not_hashed_again_until_the_file_changes(large, index, monkeypatch):
    name = fingerprint.fingerprint([large])
    with monkeypatch.context() as patch:
        patch.setattr(fingerprint, "_hash_piece", None)
        assert fingerprint.fingerprint([large]) == name
    other_byte(large)
    assert fingerprint.fingerprint([large]) == hashlib.sha256(large.read_bytes()).hexdigest() != name
    whole = index.read_text()
    index.write_text(whole.replace(json.loads(whole)["files"][str(large)][-1], "0" * 64))  # damaged: made anew
    assert fingerprint.fingerprint([large]) == hashlib.sha256(large.read_bytes()).hexdigest()
    assert index.read_text() == whole


def test_a_file_that_was_written_just_now_is_not_noted(large, index):
    """Within a tick of the clock it could be written again, and look the same."""
    large.touch()
    fingerprint.fingerprint([large])
    assert not index.exists()


def test_a_file_that_is_missing_no_file_or_grows_while_it_is_hashed_is_refused(large, tmp_path, monkeypatch):
    for name in ("missing", "."):
        with pytest.raises(DataError, match="cannot read the file"):
            fingerprint.fingerprint([tmp_path / name])
    piece = fingerprint._hash_piece
    grown = lambda *given: [large.write_bytes(bytes(2**21)), piece(*given)][1]  # noqa: E731
    monkeypatch.setattr(fingerprint, "_hash_piece", grown)
    with pytest.raises(DataError, match="changed while it was read"):
        fingerprint.fingerprint([large])


def test_weights_that_a_training_writes_into_while_they_are_ranked_by(saved, tmp_path, monkeypatch):
    """Those of a file in the ranking's dtype are read from it: what is written there is what is ranked by."""
    model, rank_packs = Path(shutil.copytree(saved("gpt2"), tmp_path / "model")), extraction.Ranker.rank_packs

    def changed(ranker, packs):
        with (model / "model.safetensors").open("r+b") as stream:
            stream.seek(-64, os.SEEK_END)
            stream.write(b"\0" * 64)
        return rank_packs(ranker, packs)

    monkeypatch.setattr(extraction.Ranker, "rank_packs", changed)
    corpus = str(write_texts(tmp_path / "mine.jsonl", texts(3, longest=30)))
    with pytest.raises(DataError, match="changed while it was read"):
        extraction.extract([str(model)], [corpus], protocol("windows", length=64), tmp_path / "out", Settings())
