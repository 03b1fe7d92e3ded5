"""Fault 5: two runs at once, and locks whose owners died."""

import fcntl
import os
import signal
import time
from pathlib import Path

import kills
import mini
import pytest
import tiny
from kills import Forked, command, content

from rbp.errors import DataError
from rbp.extraction.protocols import protocol
from rbp.extraction.reader import open_store
from rbp.extraction.run import Settings, extract
from rbp.extraction.store import Store
from rbp.paths import Project

WINDOWS = protocol("windows", length=64, context=32, pack=1)
QUICK = Settings(backend="reference")


def test_two_extractions_at_once_make_one_store(model, tmp_path):
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(40)))
    given = [str(model)], [corpus], WINDOWS
    (whole,) = extract(*given, tmp_path / "whole", QUICK)

    def run() -> None:
        try:
            extract(*given, tmp_path / "out", QUICK)
        except DataError as error:
            os._exit(2 if "another run is working on this store" in str(error) else 3)

    codes = sorted(each.wait() for each in [Forked(run) for _ in range(3)])
    assert codes[0] == 0
    assert set(codes) <= {0, 2}  # one that came late finds the work done
    (store,) = (tmp_path / "out").iterdir()
    assert content(store, "parts/*") == content(whole, "parts/*")
    assert open_store(store).problems() == []


@pytest.mark.parametrize("shard", [None, (1, 2)])
def test_a_lock_whose_owner_died_holds_nobody_up(tmp_path, shard):
    store = Store(tmp_path / "store")

    def hold() -> None:
        with store.lock(shard):
            (tmp_path / "held").touch()
            time.sleep(60)

    holder = Forked(hold)
    while not (tmp_path / "held").exists():
        time.sleep(0.01)
    with pytest.raises(DataError, match="another run is working on this store"), store.lock():
        pass
    os.kill(holder.pid, signal.SIGKILL)
    assert holder.wait() == -signal.SIGKILL
    assert (store.folder / "lock").exists(), "the file is still there, and says nothing"
    with store.lock():
        pass


def test_two_runs_of_a_chapter_into_one_folder(tmp_path):
    """Both come to an end, and the folder is one of them, whole."""
    mini.write_book(Project(tmp_path))
    both = [command(tmp_path, "run", "1", "-p", f"k={k}", "--out", "out") for k in (7, 8)]
    said = [process.wait() for process in both]
    assert said == [0, 0], (tmp_path / "said.txt").read_text()
    found = content(tmp_path / "out")
    alone = []
    for k in (7, 8):
        assert command(tmp_path, "run", "1", "-p", f"k={k}", "--out", f"alone-{k}").wait() == 0
        alone.append(content(tmp_path / f"alone-{k}"))
    assert found in alone
    assert not list(tmp_path.glob(".out.*"))


def test_a_build_whose_driver_died_keeps_others_off_only_while_it_goes_on(tmp_path):
    work = kills.whole_book()
    work.prepare(tmp_path, False)
    driver = work.start(tmp_path)
    lock = Project(tmp_path).build / ".lock"
    while not lock.exists() or _free(lock):
        assert driver.poll() is None
        time.sleep(0.02)
    time.sleep(1)
    os.kill(driver.pid, signal.SIGKILL)  # Snakemake goes on
    driver.wait()
    second = work.start(tmp_path)
    code, said = second.wait(), (tmp_path / "said.txt").read_text()
    assert code == 0 or (code == 2 and "another build of this book is running" in said), said
    work.settle(tmp_path)
    assert work.start(tmp_path).wait() == 0
    assert (Project(tmp_path).html / "index.html").exists()


def _free(lock: Path) -> bool:
    with lock.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
