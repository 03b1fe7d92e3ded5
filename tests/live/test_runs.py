"""Readers' runs: in their order, one at a time here, and none of them lost."""

import json
import os
import time

import pytest
from live.conftest import ended

from rbp.core.errors import ParameterError
from rbp.live import runs as runs_module
from rbp.live.runs import Runs


def test_a_run_is_executed_and_tells_how_far_it_is(runs):
    run = runs.ask("01_a", {"value": 0.2})
    assert run.state == "waiting"
    done = ended(runs, run.id)
    assert (done.state, done.message) == ("done", "")
    assert done.asked <= done.started <= done.ended
    assert runs.progress(run.id) == (2, 2)
    assert "0.2" in (runs.page(run.id) / "01_a.html").read_text()


def test_runs_wait_for_one_another_in_their_order_and_not_too_many(runs):
    first = runs.ask("01_a", {"value": 100})
    while runs.get(first.id).state == "waiting":
        time.sleep(0.01)
    others = [runs.ask("01_a", {"value": 0.01 * i}) for i in range(3)]
    with pytest.raises(ParameterError, match="3 runs are waiting already"):
        runs.ask("01_a", {})
    assert [run.id for run in runs.all()] == [run.id for run in reversed([first, *others])]
    runs.cancel(others[1].id)
    runs.cancel(first.id)
    states = [ended(runs, run.id).state for run in (first, *others)]
    assert states == ["cancelled", "done", "cancelled", "done"]
    assert runs.get(others[0].id).ended <= runs.get(others[2].id).started


def test_what_goes_wrong_is_told(runs):
    run = ended(runs, runs.ask("01_a", {"value": 13}).id)
    assert (run.state, run.message) == ("failed", "thirteen is not taken")
    with pytest.raises(ParameterError, match="has no page"):
        runs.page(run.id)


def test_a_run_that_takes_too_long_is_stopped(project, script):
    runs = Runs(project, limit=0.3, command=script)
    run = ended(runs, runs.ask("01_a", {"value": 100}).id)
    assert (run.state, run.message) == ("failed", "Stopped after 0.005 minutes.")
    runs.close()


def test_a_process_that_dies_loses_no_other(runs, project):
    first, second = runs.ask("01_a", {"value": 100}), runs.ask("01_a", {})
    while not runs.progress(first.id):
        time.sleep(0.01)
    os.kill(runs._processes[first.id].pid, 9)
    assert ended(runs, first.id).message == "The process ended with status -9."
    assert ended(runs, second.id).state == "done"


def test_the_next_server_finds_what_this_one_did(project, script):
    runs = Runs(project, at_once=1, command=script)
    done = ended(runs, runs.ask("01_a", {"value": 0.1}).id)
    cut, waiting = runs.ask("01_a", {"value": 100}), runs.ask("02_b", {"value": 0.3})
    while not runs.progress(cut.id):
        time.sleep(0.01)
    runs.close()
    again = Runs(project, at_once=1, command=script)
    assert again.get(done.id) == done
    assert again.get(cut.id).state == "cut off"
    assert ended(again, waiting.id).state == "done"
    again.close()


def test_a_server_that_was_killed_leaves_a_run_cut_off(project, script):
    folder = project.runs / "live" / "0123456789ab"
    folder.mkdir(parents=True)
    run = {"id": "0123456789ab", "chapter": "01_a", "parameters": {}, "state": "running", "asked": 1.0}
    (folder / "run.json").write_text(json.dumps(run))
    (project.runs / "live" / "damaged").mkdir()
    (project.runs / "live" / "damaged" / "run.json").write_text("{")
    runs = Runs(project, command=script)
    assert [(run.id, run.state) for run in runs.all()] == [("0123456789ab", "cut off")]
    runs.close()


def test_only_the_end_of_a_long_log_is_told(runs):
    run = ended(runs, runs.ask("01_a", {}).id)
    log = runs.path(run.id) / "log.txt"
    log.write_text("é" * 30_000 + "the end")
    assert runs.log(run.id).endswith("ééthe end")
    assert len(runs.log(run.id)) <= 20_000


def test_a_full_disk_ends_no_worker(runs, monkeypatch):
    write = runs_module.write_json

    def full(path, value):
        if value["state"] != "waiting":
            raise OSError(28, "No space left on device")
        write(path, value)

    monkeypatch.setattr(runs_module, "write_json", full)
    first, second = runs.ask("01_a", {"value": 0.1}), runs.ask("01_a", {})
    assert ended(runs, first.id).state == "done"
    assert ended(runs, second.id).state == "done"


def test_only_what_has_ended_is_deleted(runs):
    run = runs.ask("01_a", {"value": 100})
    with pytest.raises(ParameterError, match="has not ended"):
        runs.delete(run.id)
    runs.cancel(run.id)
    ended(runs, run.id)
    folder = runs.path(run.id)
    assert folder.is_dir()
    runs.delete(run.id)
    assert not folder.exists()
    with pytest.raises(ParameterError, match="no such run"):
        runs.get(run.id)


@pytest.mark.parametrize("name", ["", "..", "../..", "0123456789ab/../..", "/etc", "nothing"])
def test_the_name_of_a_run_is_no_path(runs, name):
    for asked in (runs.get, runs.path, runs.page, runs.log, runs.cancel, runs.delete):
        with pytest.raises(ParameterError, match="no such run"):
            asked(name)
