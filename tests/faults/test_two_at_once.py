"""Two runs at once, and locks whose owners died."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
from apart import BOUND, Apart, Process, content, ended

from rbp.errors import DataError
from rbp.extract.extraction import Settings, extract
from rbp.extract.protocol import protocol
from rbp.extract.store import Store, open_store


def extract_or_be_refused(model: Path, corpus: str, out: Path) -> str:
    windows = protocol("windows", length=64, context=32, pack=1)
    try:
        extract([str(model)], [corpus], windows, out, Settings(backend="reference"))
    except DataError as error:
        return str(error)
    return ""


def test_extractions_at_once_make_one_store(model, tmp_path):
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(20)))
    assert extract_or_be_refused(model, corpus, tmp_path / "whole") == ""
    three = [Apart(extract_or_be_refused, model, corpus, tmp_path / "out") for _ in range(3)]
    said = sorted(each.result() for each in three)
    assert said[0] == ""
    for words in filter(None, said):  # one that came late finds the work done
        assert "another run is working on this store" in words
    (store,), (whole,) = ((tmp_path / name).iterdir() for name in ("out", "whole"))
    assert content(store, "parts/*") == content(whole, "parts/*")
    assert open_store(store).problems() == []


def hold(folder: Path, shard: tuple[int, int] | None) -> None:
    with Store(folder).lock(shard):
        (folder / "held").touch()
        time.sleep(60)


@pytest.mark.parametrize("shard", [None, (1, 2)], ids=["whole", "shard"])
def test_a_lock_whose_owner_died_holds_nobody_up(tmp_path, shard):
    store = Store(tmp_path / "store")
    holder = Apart(hold, store.folder, shard)
    until(lambda: (store.folder / "held").exists(), holder)
    with pytest.raises(DataError, match="another run is working on this store"), store.lock():
        pass
    os.kill(holder.pid, signal.SIGKILL)
    assert ended(holder) == -signal.SIGKILL
    assert (store.folder / "lock").exists(), "the file is still there, and says nothing"
    with store.lock():
        pass


def until(there: Callable[[], bool], process: Process) -> None:
    """Wait for something that a process does."""
    latest = time.monotonic() + BOUND
    while not there():
        assert process.poll() is None, "it has ended before"
        assert time.monotonic() < latest, "it does not come to it"
        time.sleep(0.02)
