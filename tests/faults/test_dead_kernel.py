"""The system kills a kernel in the middle of a chapter, as it does where memory runs out."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from apart import BOUND
from mini import outputs, write_chapter

from companion.project import Project
from companion.run import Chapter, execute
from rbp.errors import ChapterFailed

pytestmark = pytest.mark.builds  # it waits

LONG_CELL = """
import os, pathlib, time
print("so far", flush=True)
pathlib.Path("kernel").write_text(str(os.getpid()))
time.sleep(300)
"""


def started(path: Path) -> int:
    """The process of the kernel that runs `LONG_CELL`, once it does."""
    latest = time.monotonic() + BOUND
    while not path.exists() or not path.read_text():
        assert time.monotonic() < latest
        time.sleep(0.02)
    return int(path.read_text())


def test_a_kernel_killed_from_outside_is_named_promptly(tmp_path: Path) -> None:
    project, killed = Project(tmp_path), []
    chapter = Chapter(write_chapter(project, "01_a", "value = 1", LONG_CELL, "print('never')"))

    def kill() -> None:
        kernel = started(tmp_path / "kernel")
        time.sleep(0.5)
        os.kill(kernel, signal.SIGKILL)
        killed.append(time.monotonic())

    threading.Thread(target=kill, daemon=True).start()
    with pytest.raises(ChapterFailed, match=r"01_a failed at cell 3: Kernel died") as caught:
        execute(chapter, {}, project.runs / "out", project.root)
    assert time.monotonic() - killed[0] < 20
    assert [path.name for path in project.runs.iterdir()] == ["out.failed.ipynb"]
    assert outputs(caught.value.partial_notebook).startswith("so far")
