"""Jobs in processes of their own, one of which is killed. It imports little, since each of them imports it."""

import os
import signal
from pathlib import Path

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


@pytest.mark.long
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
