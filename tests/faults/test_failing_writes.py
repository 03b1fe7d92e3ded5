"""What is written is whole or not there, wherever writing ends: by a failure at a step of it, or by a kill."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import writes
from apart import Apart, apart, ended
from injected import KILLED

from rbp.io import folder_beside, swap_in, write_file, write_remedy

#: which share of the steps of each case is tried
LOOP = {"an executed chapter, over an older one": 0.1, "a rank store, half made": 0.1}
SLOW = {name: 0.25 if name == "the pages" else 1 for name in writes.CASES}
HOURS = 3 * 3600.0


@pytest.mark.parametrize(("name", "share"), LOOP.items())
def test_failures_at_some_steps_of_writing(name, share, model, tmp_path):
    assert apart(writes.count, name, tmp_path / "work", model, share, False) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(("name", "share"), SLOW.items())
def test_failures_at_every_step_of_writing(name, share, model, tmp_path):
    assert apart(writes.count, name, tmp_path / "work", model, share, True, seconds=HOURS) >= 20


def die_beside(target: Path) -> None:
    with folder_beside(target):
        os._exit(KILLED)


def test_what_a_dead_process_has_left_is_removed_and_what_a_living_one_has_is_not(tmp_path):
    target = tmp_path / "folder"
    os.mkfifo(tmp_path / ".folder.01234567.tmp")  # what others put there is not waited for
    assert ended(Apart(die_beside, target), 60) == KILLED
    (dead,) = tmp_path.glob(".folder.*.tmp")
    with folder_beside(target) as living:
        assert not dead.exists()
        with folder_beside(target) as other:  # as another process would
            assert living.exists()
            (other / "of").write_text("the other")
            swap_in(other, target)
        (living / "of").write_text("the last")
        swap_in(living, target)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert (target / "of").read_text() == "the last"


def test_folders_that_are_made_at_once_do_not_take_each_other_for_left_behind(tmp_path):
    def make_and_remove(number: int) -> None:
        for _ in range(100):
            with folder_beside(tmp_path / "folder") as new:
                (new / "of").write_text(f"{number}")
                assert (new / "of").read_text() == f"{number}"

    with ThreadPoolExecutor(4) as threads:  # a lock is one opening's, so threads are to it as processes are
        list(threads.map(make_and_remove, range(4)))
    assert not list(tmp_path.iterdir())


def test_who_may_read_is_said_when_a_file_or_folder_is_made(tmp_path):
    write_file(tmp_path / "file", "ours", 0o600)
    with folder_beside(tmp_path / "folder", 0o700) as new:
        assert new.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_without_an_exchange_in_one_step_a_folder_is_replaced_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("rbp.io._exchange", lambda one, other: False)
    for text in ("old", "new"):
        with folder_beside(tmp_path / "folder") as new:
            (new / "file").write_text(text)
            swap_in(new, tmp_path / "folder")
    assert (tmp_path / "folder" / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(("number", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EROFS, False)])
def test_what_to_do_follows_from_what_was_wrong(number, full):
    assert write_remedy(OSError(number, "no"), "choose another folder").startswith("Free some space") == full
