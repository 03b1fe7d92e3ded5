"""Fault 5: two runs at once, and locks whose owners died."""

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import kills
import mini
import pytest
import tiny
from apart import BOUND, Apart, Process, ended
from kills import command, content

from companion.project import Project
from rbp.errors import DataError
from rbp.extract.extraction import Settings, extract
from rbp.extract.protocol import protocol
from rbp.extract.store import Store, open_store

WINDOWS = protocol("windows", length=64, context=32, pack=1)
QUICK = Settings(backend="reference")


def extract_or_be_refused(model: Path, corpus: str, out: Path) -> str:
    try:
        extract([str(model)], [corpus], WINDOWS, out, QUICK)
    except DataError as error:
        return str(error)
    return ""


def test_two_extractions_at_once_make_one_store(model, tmp_path):
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(40)))
    (whole,) = extract([str(model)], [corpus], WINDOWS, tmp_path / "whole", QUICK)
    three = [Apart(extract_or_be_refused, model, corpus, tmp_path / "out") for _ in range(3)]
    said = sorted(each.result() for each in three)
    assert said[0] == ""
    for words in filter(None, said):  # one that came late finds the work done
        assert "another run is working on this store" in words
    (store,) = (tmp_path / "out").iterdir()
    assert content(store, "parts/*") == content(whole, "parts/*")
    assert open_store(store).problems() == []


def hold(folder: Path, shard: tuple[int, int] | None) -> None:
    with Store(folder).lock(shard):
        (folder / "held").touch()
        time.sleep(60)


@pytest.mark.parametrize("shard", [None, (1, 2)])
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


@pytest.mark.builds
def test_two_runs_of_a_chapter_into_one_folder(tmp_path):
    """Both come to an end, and the folder is one of them, whole."""
    mini.write_book(Project(tmp_path))
    both = [command(tmp_path, "run", "1", "-p", f"k={k}", "--out", "out") for k in (7, 8)]
    said = [ended(process) for process in both]
    assert said == [0, 0], (tmp_path / "said.txt").read_text()
    found = content(tmp_path / "out")
    values = json.loads(found["results.json"])["values"]
    last = values["value"]["value"] - len((tmp_path / "data" / "a.csv").read_text())  # the k of the one that is there
    assert last in (7, 8)
    assert ended(command(tmp_path, "run", "1", "-p", f"k={last}", "--out", "alone")) == 0
    assert found == content(tmp_path / "alone")
    assert not list(tmp_path.glob(".out.*"))


@pytest.mark.slow
def test_a_build_whose_driver_died_keeps_others_off_only_while_it_goes_on(tmp_path):
    work = kills.whole_book()
    work.prepare(tmp_path, False)
    driver = work.start(tmp_path)
    lock = Project(tmp_path).build / ".lock"
    until(lambda: lock.exists() and not _free(lock), driver)
    time.sleep(1)
    os.kill(driver.pid, signal.SIGKILL)  # Snakemake goes on
    ended(driver)
    second = work.start(tmp_path)
    code, said = ended(second), (tmp_path / "said.txt").read_text()
    assert code == 0 or (code == 2 and "another build of this book is running" in said), said
    work.settle(tmp_path)
    assert ended(work.start(tmp_path)) == 0
    assert (Project(tmp_path).html / "index.html").exists()


def until(there: Callable[[], bool], process: Process) -> None:
    """Wait for something that a process does."""
    latest = time.monotonic() + BOUND
    while not there():
        assert process.poll() is None, "it has ended before"
        assert time.monotonic() < latest, "it does not come to it"
        time.sleep(0.02)


def _free(lock: Path) -> bool:
    with lock.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
