"""Readers' runs: in their order, one at a time here, and none of them lost."""

import json
import os
import subprocess
import sys
import time

import psutil
import pytest
from visitors import ended

from companion.live import runs as runs_module
from companion.live.runs import Runs
from rbp.errors import ParameterError, RbpError


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


@pytest.mark.parametrize(
    ("log", "page", "state", "message"),
    [
        ("cell 1 of 2\n", False, "cut off", "The server ended while this ran. Run it again."),
        ("cell 2 of 2\n", True, "done", ""),
        ("cell 1 of 2\nerror: Stopped after 15 minutes.\n", False, "failed", "Stopped after 15 minutes."),
        (None, False, "cut off", "The server ended while this ran. Run it again."),
    ],
)
def test_a_run_whose_server_was_killed_tells_what_became_of_it(project, script, log, page, state, message):
    folder = project.runs / "live" / "0123456789ab"
    folder.mkdir(parents=True)
    run = {"id": "0123456789ab", "chapter": "01_a", "parameters": {}, "state": "running", "asked": 1.0}
    (folder / "run.json").write_text(json.dumps(run))
    if log:
        (folder / "log.txt").write_text(log)
    if page:
        (folder / "page").mkdir()
    (project.runs / "live" / "damaged").mkdir()
    (project.runs / "live" / "damaged" / "run.json").write_text("{")
    runs = Runs(project, command=script)
    assert [(run.id, run.state, run.message) for run in runs.all()] == [("0123456789ab", state, message)]
    assert json.loads((folder / "run.json").read_text())["state"] == state
    runs.close()


SERVER = """
import pathlib, sys, time
from companion.project import Project
from companion.live.runs import Runs
runs = Runs(Project(pathlib.Path(sys.argv[1])), at_once=1, command=sys.argv[2:])
print(runs.ask("01_a", {"value": 100}).id, flush=True)
time.sleep(300)
"""


def test_a_run_ends_with_its_server_even_if_that_is_killed(project, script):
    command = [sys.executable, "-c", SERVER, str(project.root), *script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        name = process.stdout.readline().strip()
        log = project.runs / "live" / name / "log.txt"
        until = time.monotonic() + 60
        while not log.exists() or not log.read_text():
            assert time.monotonic() < until
            time.sleep(0.02)
        (run,) = psutil.Process(process.pid).children()
        process.kill()
    assert psutil.wait_procs([run], 20)[1] == []
    runs = Runs(project, command=script)
    assert (runs.get(name).state, runs.get(name).ended) == ("cut off", None)
    runs.close()


def test_a_run_that_does_not_end_when_it_should_is_ended(project, tmp_path):
    """The system does it: no thread here, and no server, need be there."""
    stubborn = tmp_path / "stubborn.py"
    stubborn.write_text(
        "import sys, time\nfrom companion.live import runs\nruns.GRACE = 0.2\nruns.bound(0.2, int(sys.argv[2]))\n"
        "while True:\n    try:\n        time.sleep(300)\n    except SystemExit:\n        pass\n"
    )
    runs = Runs(project, command=(sys.executable, str(stubborn)))
    run = ended(runs, runs.ask("01_a", {}).id)
    assert (run.state, run.message) == ("failed", "Stopped after 0.00333333 minutes.")
    runs.close()


def test_one_server_at_a_time_has_a_projects_runs(runs, project, script):
    with pytest.raises(RbpError, match="another `rbp serve` has this project's runs"):
        Runs(project, command=script)


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
