"""Readers' runs: in their order, one at a time here, and none of them lost."""

import os
import subprocess
import sys
import time

import psutil
import pytest
from visitors import ended, running

from companion.live.runs import Runs
from rbp.errors import ParameterError, RbpError


def test_a_run_is_executed_and_shows_how_far_it_is(runs):
    run = runs.ask("01_a", {"value": 0.2})
    assert run.state == "waiting"
    done = ended(runs, run.id)
    assert (done.state, done.message) == ("done", "")
    assert done.requested <= done.started <= done.ended
    assert runs.progress(run.id) == (2, 2)
    assert "0.2" in (runs.page(run.id) / "01_a.html").read_text()
    failed = ended(runs, runs.ask("01_a", {"value": 13}).id)
    assert (failed.state, failed.message) == ("failed", "thirteen is not taken")
    with pytest.raises(ParameterError, match="has no page"):
        runs.page(failed.id)


def test_runs_wait_for_one_another_in_their_order_and_not_too_many(runs):
    first = runs.ask("01_a", {"value": 100})
    running(runs, first.id)
    others = [runs.ask("01_a", {"value": 0.01 * i}) for i in range(3)]
    with pytest.raises(ParameterError, match="3 runs are waiting already"):
        runs.ask("01_a", {})
    runs.cancel(others[1].id)
    runs.cancel(first.id)
    states = [ended(runs, run.id).state for run in (first, *others)]
    assert states == ["cancelled", "done", "cancelled", "done"]
    assert runs.get(others[0].id).ended <= runs.get(others[2].id).started


def test_a_process_that_dies_loses_no_other(runs):
    first, second = runs.ask("01_a", {"value": 100}), runs.ask("01_a", {})
    running(runs, first.id)
    os.kill(runs._processes[first.id].pid, 9)
    assert ended(runs, first.id).message == "The process ended with status -9."
    assert ended(runs, second.id).state == "done"


def test_the_next_server_finds_what_this_one_did(project, script):
    runs = Runs(project, at_once=1, command=script)
    done = ended(runs, runs.ask("01_a", {"value": 0.1}).id)
    cut, waiting = runs.ask("01_a", {"value": 100}), runs.ask("02_b", {"value": 0.3})
    running(runs, cut.id)
    with pytest.raises(RbpError, match="another `rbp serve` uses this project's runs"):
        Runs(project, command=script)
    runs.close()
    again = Runs(project, at_once=1, command=script)
    assert again.get(done.id) == done
    assert again.get(cut.id).state == "cut off"
    assert ended(again, waiting.id).state == "done"
    again.close()


SERVER = """
import pathlib, sys, time
from companion.project import Project
from companion.live.runs import Runs
runs = Runs(Project(pathlib.Path(sys.argv[1])), at_once=1, command=sys.argv[2:])
print(runs.ask("01_a", {"value": 100}).id, flush=True)
time.sleep(300)
"""


@pytest.mark.long
def test_a_run_ends_with_its_server_even_if_that_is_killed(project, script):
    command = [sys.executable, "-c", SERVER, str(project.root), *script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        name = process.stdout.readline().strip()
        log = project.runs / "live" / name / "log.txt"
        until = time.monotonic() + 300
        while not log.exists() or not log.read_text():
            assert time.monotonic() < until
            time.sleep(0.02)
        (run,) = psutil.Process(process.pid).children()
        process.kill()
    assert psutil.wait_procs([run], 20)[1] == []
    runs = Runs(project, command=script)
    assert (runs.get(name).state, runs.get(name).ended) == ("cut off", None)
    runs.close()


STUBBORN = """
import sys, time
from companion.live import runs
runs.GRACE = 0.2
runs.limit_process(0.2, int(sys.argv[2]))
while True:
    try:
        time.sleep(300)
    except SystemExit:
        pass
"""


@pytest.mark.long
def test_a_run_that_takes_too_long_is_stopped_even_if_it_does_not_want_to(project, script, tmp_path):
    """The system does it: no thread here, and no server, need be there."""
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    for command, limit in ((script, 0.3), ((sys.executable, str(tmp_path / "stubborn.py")), None)):
        runs = Runs(project, command=command, **({"limit": limit} if limit else {}))
        run = ended(runs, runs.ask("01_a", {"value": 100}).id)
        assert run.state == "failed"
        assert run.message.startswith("Stopped after 0.00")
        runs.close()


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
    for name in (run.id, "", "..", "../..", "0123456789ab/../..", "/etc", "nothing"):  # no name is a path
        for request in (runs.get, runs.path, runs.page, runs.log, runs.cancel, runs.delete):
            with pytest.raises(ParameterError, match="no such run"):
                request(name)
