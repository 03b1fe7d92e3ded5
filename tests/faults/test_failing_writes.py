"""Fault 1: what is written is whole or not there, wherever writing ends. `make test-slow` does the same at length."""

import injected
import kills
import pytest
import write_points
from injected import CLEAN, DONE, KILLED, trial

from rbp.files import folder_beside, swap_in, write_file


@pytest.mark.parametrize("make", [write_points.merged_results, write_points.a_step], ids=lambda make: make.__name__)
def test_every_step_of_a_small_write(make, tmp_path):
    *_, tried = write_points.trials(make(), tmp_path, twice=False)
    assert tried > 10


@pytest.mark.parametrize(
    "make",
    [lambda model: write_points.an_executed_chapter(True), write_points.a_store, write_points.a_label],
    ids=["an executed chapter", "a rank store", "a manifest"],
)
def test_some_steps_of_a_larger_write(make, model, tmp_path):
    *_, tried = write_points.trials(make(model), tmp_path, twice=False, chosen=lambda at: at % 7 == 3)
    assert tried > 0


@pytest.mark.parametrize("name", ["rbp run", "rbp book"])
def test_a_killed_command_and_its_rerun(name, tmp_path):
    assert len(list(kills.kills(kills.WORKS[name](), tmp_path, 1))) == 1


def test_the_injection_does_what_it_says(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    whole = trial(lambda: write_file(path, "new, and longer"), tmp_path)
    assert (whole.code, whole.hit, path.read_text()) == (DONE, False, "new, and longer")
    path.write_text("old")
    for kind, code in (("full", CLEAN), ("broken", CLEAN), ("killed", KILLED)):
        outcome = trial(lambda: write_file(path, "new, and longer"), tmp_path, 2, kind)  # the write itself
        assert (outcome.code, outcome.hit, path.read_text()) == (code, True, "old")
    (left,) = tmp_path.glob(".file.*.tmp")  # of the kill
    assert left.read_text() == "new, an"
    torn = trial(lambda: path.write_text("new, and longer"), tmp_path, 2, "killed")  # what is not written beside
    assert (torn.code, path.read_text()) == (KILLED, "new, an")


def test_what_a_dead_process_has_left_is_removed_and_what_a_living_one_has_is_not(tmp_path):
    target = tmp_path / "folder"

    def dies() -> None:
        with folder_beside(target):
            injected.os._exit(KILLED)

    assert trial(dies, tmp_path).code == KILLED
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


def test_without_an_exchange_in_one_step_a_folder_is_replaced_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("rbp.files._exchange", lambda one, other: False)
    for text in ("old", "new"):
        with folder_beside(tmp_path / "folder") as new:
            (new / "file").write_text(text)
            swap_in(new, tmp_path / "folder")
    assert (tmp_path / "folder" / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
