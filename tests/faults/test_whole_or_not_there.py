"""What is written is whole or not there, wherever writing ends: by a failure at a step, by a kill, or beside others."""

import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import tiny
import writes
from apart import apart, begin, content, server, until
from draws import loop_and_slow
from injected import KILLED

from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract.extraction import extract
from rbp.io import folder_beside, swap_in, write_file
from rbp.store import Store, open_store
from rbp.texts.protocol import protocol


@pytest.mark.long
@pytest.mark.parametrize("share", loop_and_slow(0.05, 1))
@pytest.mark.parametrize("name", writes.CASES)
def test_failures_at_steps_of_writing(name, share, model, tmp_path):
    assert apart(writes.count, name, tmp_path / "work", model, share) >= 2


def die_beside(target: Path) -> None:
    with folder_beside(target):
        os._exit(KILLED)


@pytest.mark.long
def test_what_a_dead_process_has_left_is_removed_a_day_later(tmp_path):
    target = tmp_path / "folder"
    process = begin(die_beside, target)
    process.join(60)
    assert process.exitcode == KILLED
    (dead,) = tmp_path.glob(".folder.*.tmp")
    with folder_beside(target):
        assert dead.exists(), "it may be a living process's"
    day_ago = time.time() - 25 * 3600
    os.utime(dead, (day_ago, day_ago))
    with folder_beside(target) as new:
        assert [path.name for path in tmp_path.iterdir()] == [new.name]


def test_files_a_day_old_are_swept_and_others_are_not(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / ".a.txt.01234567.tmp").write_text("left over")
    (tmp_path / ".a.txt.01234568.tmp").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / ".a.txt.01234569.tmp")  # what others put there is not waited for
    for path in tmp_path.glob(".a.txt.*"):
        os.utime(path, (0, 0), follow_symlinks=False)
    (tmp_path / ".b.txt.01234567.tmp").touch()
    os.utime(tmp_path / ".b.txt.01234567.tmp", (0, 0))
    write_file(tmp_path / "a.txt", "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "outside", ".b.txt.01234567.tmp"}
    assert (tmp_path / "outside" / "kept").exists()


@pytest.mark.parametrize("before", [None, "folder", "file"])
def test_a_folder_is_replaced_whole(tmp_path, before):
    target = tmp_path / "folder"
    if before == "folder":
        target.mkdir()
        (target / "old").touch()
    elif before == "file":
        target.touch()
    with folder_beside(target) as new:
        (new / "new").touch()
        swap_in(new, target)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["folder", "folder/new"]


def test_a_folder_that_cannot_be_replaced_stays(tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(FileNotFoundError):
        swap_in(tmp_path / "nothing", target)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == ["folder", "folder/old"]


def extract_or_be_refused(model: Path, corpus: str, out: Path) -> str:
    windows = protocol("windows", length=64, context=32, pack=1)
    try:
        extract([str(model)], [corpus], windows, out, Settings(backend="reference"))
    except DataError as error:
        return str(error)
    return ""


@pytest.mark.long
def test_extractions_at_once_make_one_store(model, tmp_path):
    corpus = str(tiny.write_texts(tmp_path / "corpus.jsonl", tiny.texts(20)))
    assert extract_or_be_refused(model, corpus, tmp_path / "whole") == ""
    with ProcessPoolExecutor(3, mp_context=server()) as pool:
        three = [pool.submit(extract_or_be_refused, model, corpus, tmp_path / "out") for _ in range(3)]
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


@pytest.mark.long
@pytest.mark.parametrize("shard", [None, (1, 2)], ids=["whole", "shard"])
def test_a_lock_whose_owner_died_holds_nobody_up(tmp_path, shard):
    store = Store(tmp_path / "store")
    holder = begin(hold, store.folder, shard)
    until((store.folder / "held").exists)
    with pytest.raises(DataError, match="another run is working on this store"), store.lock():
        pass
    holder.kill()
    holder.join(60)
    assert (store.folder / "lock").exists(), "the file is still there, and says nothing"
    with store.lock():
        pass
