"""Jobs in processes of their own, one of which is killed. It imports little, since each of them imports it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rbp import processes
from rbp.errors import DataError


def _tells(told: processes.Tell, folder: Path, name: str) -> None:
    (folder / name).touch()
    told(processes.DONE)


def _dies(told: processes.Tell) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _errs(told: processes.Tell) -> None:
    raise DataError("nothing there", "here", "Look elsewhere.")


@pytest.mark.builds
def test_a_worker_that_dies_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    todo = [
        processes.Task("first", _dies, ()),
        processes.Task("second", _errs, ()),
        *(processes.Task(name, _tells, (tmp_path, name)) for name in ("third", "fourth")),
    ]
    failed = processes.run_tasks(todo, 2, lambda name, line: heard.append((name, line)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fourth", "third"]
    assert sorted(heard) == [("fourth", "done"), ("third", "done")]
    assert failed.pop("first") == "its process was ended by signal 9"
    assert isinstance(error := failed.pop("second"), DataError)
    assert str(error) == "nothing there (here)\nLook elsewhere."
    assert failed == {}


ENDS = """
import os, sys, time
sys.platform = {!r}
from rbp.processes import end_with
end_with({})
print(os.getpid(), flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_process_ends_with_its_parent_even_if_that_has_ended_before(platform: str) -> None:
    child = ENDS.format(platform, "os.getppid()")
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        begun = psutil.Process(int(process.stdout.readline()))
        process.kill()
    assert psutil.wait_procs([begun], 60)[1] == []
    late = subprocess.run([sys.executable, "-c", ENDS.format(platform, os.getpid() + 1)], timeout=60, check=False)
    assert late.returncode == -signal.SIGTERM
