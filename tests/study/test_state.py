"""How a job stands: told by itself while it lives, and by nobody when it is killed."""

import errno
import fcntl
import json
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest

from rbp.core.errors import DataError
from rbp.ranks.store import Store
from rbp.study import jobs, workflow
from rbp.study.config import Study
from rbp.study.jobs import read_json, shards_of, state, told
from rbp.study.report import lines_of, status_json, summary


def first(study: Study) -> jobs.Job:
    return shards_of(study, study.cells[0])[0]


def test_a_job_runs_and_is_done_when_its_output_is_there(study: Study) -> None:
    job = first(study)
    with told(study, job):
        assert state(study, job).stand == "running"
    assert state(study, job).stand == "left"  # it ended well, but its output is not there
    (study.out / job.output).parent.mkdir(parents=True)
    (study.out / job.output).write_text("{}")
    assert state(study, job).stand == "done"


def test_a_job_that_fails_says_why_and_where(study: Study) -> None:
    job = first(study)
    with pytest.raises(DataError), told(study, job):
        raise DataError("the disk is full", "here", "Free some space.")
    assert state(study, job).reason == "the disk is full (here)"
    lines = "\n".join(lines_of(study, summary(study)))
    assert "the disk is full (here)" in lines
    assert f"{job.name}.log" in lines
    found = status_json(study)
    assert found["counts"]["failed"] == 1
    json.dumps(found, allow_nan=False)


def hang(study: Study, started: Any) -> None:
    with told(study, first(study)):
        started.set()
        time.sleep(600)


def test_a_killed_job_is_not_called_running(study: Study) -> None:
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    process = context.Process(target=hang, args=(study, started))
    process.start()
    assert started.wait(60)
    assert state(study, first(study)).stand == "running"
    process.kill()
    process.join(60)
    found = state(study, first(study))
    assert found.stand == "failed"
    assert "killed" in (found.reason or "")


def test_a_silent_job_of_another_machine_is_taken_for_dead(study: Study) -> None:
    job = first(study)
    path = study.out / "state" / f"{job.name}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"host": "another", "pid": 1, "started": time.time()}))
    assert state(study, job).stand == "running"
    os.utime(path, (time.time() - 2 * jobs.SILENCE,) * 2)
    assert state(study, job).stand == "failed"


def work(study: Study, name: str, said: Any) -> None:
    with told(study, first(study)):
        said.put((name, "in"))
        time.sleep(0.3)
        said.put((name, "out"))


def test_a_second_run_of_a_job_waits_for_the_first(study: Study) -> None:
    context = multiprocessing.get_context("spawn")
    said: Any = context.Queue()
    both = [context.Process(target=work, args=(study, name, said)) for name in "ab"]
    for process in both:
        process.start()
    events = [said.get(timeout=60) for _ in range(4)]
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    assert [what for _, what in events] == ["in", "out", "in", "out"]


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\x00", b"[" * 100_000, b"\0"])
def test_a_state_that_cannot_be_read_is_no_state(study: Study, content: bytes) -> None:
    path = study.out / "state" / f"{first(study).name}.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert state(study, first(study)).stand == "left"
    assert read_json(path) is None


def test_a_study_that_has_not_begun_has_a_status(study: Study, tmp_path: Path) -> None:
    assert lines_of(study, summary(study)) == ["5 jobs: 0 done, 0 running, 0 failed, 5 left"]


def test_where_there_are_no_locks_the_work_goes_on(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with told(study, first(study)), Store(study.ranks / "any").lock((1, 2)), workflow._alone(study):
        assert state(study, first(study)).stand == "running"


def test_shards_share_a_store_over_nfs_too(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """There a shared lock is one for reading, so the file must be open for reading."""
    taken = []

    def flock(stream: Any, kind: int) -> None:
        assert stream.readable()
        assert stream.writable()
        taken.append(kind & ~fcntl.LOCK_NB)

    monkeypatch.setattr("fcntl.flock", flock)
    with Store(study.ranks / "any").lock((1, 2)):
        assert taken == [fcntl.LOCK_SH, fcntl.LOCK_EX]
