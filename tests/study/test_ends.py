"""Why a job failed, and what to do: by its own error, or by what Slurm says of a job that it stopped."""

import errno
import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from slurm import cluster, lacking

from rbp.core.errors import DataError
from rbp.core.paths import ROOT
from rbp.study.config import Study
from rbp.study.ends import slurm_end, slurm_log
from rbp.study.jobs import shards_of, state, told
from rbp.study.report import lines_of, status_json, summary

STEPD = "slurmstepd-node7: error: *** JOB 12 ON node7 CANCELLED AT 2026-11-22T13:38:28"
ENDS = {  # what Slurm writes at the end of a job's messages, and a part of the reason and of the remedy
    f"{STEPD} DUE TO TIME LIMIT ***": ("time limit", "--time"),
    "JobState=TIMEOUT": ("time limit", "--time"),
    "slurmstepd: error: Detected 1 oom_kill event in StepId=12.batch. Some of the step tasks have been OOM Killed.": (
        "out of memory",
        "--mem",
    ),
    "JobState=OUT_OF_MEMORY": ("out of memory", "--mem"),
    f"{STEPD} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***": ("node failed", "--exclude"),
    "JobState=NODE_FAIL": ("node failed", "--exclude"),
    f"{STEPD} DUE TO PREEMPTION ***": ("another job", "Run the study again"),
    f"{STEPD} ***": ("cancelled", "Run the study again"),
}


@pytest.mark.parametrize("ended", [None, SystemExit(143)])  # killed at once, or told to stop first
@pytest.mark.parametrize("words", ENDS)
def test_the_status_says_why_slurm_stopped_a_job(study: Study, words: str, ended: BaseException | None) -> None:
    job = shards_of(study, study.cells[0])[0]
    path = study.out / "state" / f"{job.name}.json"
    path.parent.mkdir(parents=True)
    content = {"host": "node7", "pid": 1, "started": time.time(), "slurm": "12"}
    if ended:
        content |= {"failed": "stopped", "remedy": "Run the study again: what was measured is kept.", "seconds": 3.0}
    path.write_text(json.dumps(content))
    os.utime(path, (time.time() - 3600,) * 2)
    log = slurm_log(study.out, "12")
    log.parent.mkdir(parents=True)
    log.write_text("what other programs say of a TIME LIMIT\n\n")
    assert "Slurm" not in (state(study, job).reason or "")
    log.write_text(f"any\n{words}\n")
    reason, remedy = ENDS[words]
    lines = "\n".join(lines_of(study, summary(study)))
    assert reason in lines
    assert remedy in lines
    (found,) = (one for one in status_json(study)["jobs"] if one["job"] == job.name)
    assert remedy in found["remedy"]


def test_an_error_of_its_own_says_more_than_slurm(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    job = shards_of(study, study.cells[0])[0]
    with pytest.raises(DataError), told(study, job):
        raise DataError("the text is empty", "a.jsonl", "Give another.")
    slurm_log(study.out, "12").parent.mkdir(parents=True)
    slurm_log(study.out, "12").write_text("JobState=CANCELLED\n")
    assert (state(study, job).reason, state(study, job).remedy) == ("the text is empty (a.jsonl)", "Give another.")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "Free some space"),
        (MemoryError(), "memory may be short"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "a shorter dtype"),
        (KeyboardInterrupt(), "Run the study again"),
        (KeyError("a bug"), None),
    ],
)
def test_errors_that_are_not_ours_have_a_remedy_where_there_is_one(
    study: Study, error: BaseException, remedy: str | None
) -> None:
    job = shards_of(study, study.cells[0])[0]
    with pytest.raises(type(error)), told(study, job):
        raise error
    found = state(study, job).remedy
    assert found is None if remedy is None else remedy in (found or "")


@pytest.mark.builds
@pytest.mark.skipif(bool(lacking()), reason=str(lacking()))
def test_a_real_slurm_says_so(tmp_path: Path) -> None:
    """Of a job that is cancelled, one whose node fails, and one that ends by itself."""
    submit = ROOT / "studies" / "profiles" / "slurm" / "submit"
    with cluster(tmp_path / "slurm") as environment:
        both = os.environ | environment

        def start(name: str, command: str) -> "subprocess.Popen[bytes]":
            options = ["--mem=100M", "--time=10", "--no-requeue", "--", *command.split()]
            arguments = [str(submit), name, f"{tmp_path}/{name}.made", f"{tmp_path}/{name}-%j.log", *options]
            return subprocess.Popen(arguments, env=both, stderr=subprocess.DEVNULL)

        def ask(*command: str) -> str:
            return subprocess.run(command, env=both, capture_output=True, text=True, check=True).stdout.strip()

        drivers = [start("one", "sleep 600"), start("other", "sleep 600"), start("last", "false")]
        while ask("squeue", "-h", "-o", "%T").split() != ["RUNNING"] * 2 or len(list(tmp_path.glob("*.log"))) < 3:
            time.sleep(0.2)
        ask("scancel", "--name=one")
        ask("scontrol", "update", f"nodename={ask('sinfo', '-h', '-o', '%n')}", "state=down", "reason=test")
        assert [driver.wait(120) for driver in drivers] == [1, 1, 1]
    found = {path.name.split("-")[0]: slurm_end(path) for path in tmp_path.glob("*.log")}
    assert found["one"] is not None
    assert found["one"][0] == "cancelled (Slurm)"
    assert found["other"] is not None
    assert found["other"][0] == "its node failed (Slurm)"
    assert found["last"] is None
