"""Fault 10: the system kills a kernel in the middle of a chapter, as it does where memory runs out."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from apart import BOUND
from mini import outputs, write_chapter

from rbp.book.chapters import Chapter, execute
from rbp.core.errors import ChapterFailed
from rbp.core.paths import Project

pytestmark = pytest.mark.builds  # it waits


def test_a_kernel_killed_from_outside_is_named_promptly(tmp_path: Path) -> None:
    project, started = Project(tmp_path), tmp_path / "kernel"
    cell = f"""
        import os, pathlib, time
        print("so far", flush=True)
        pathlib.Path({str(started)!r}).write_text(str(os.getpid()))
        time.sleep(300)
    """
    chapter = Chapter(write_chapter(project, "01_a", "value = 1", cell, "print('never')"))
    killed = []

    def kill() -> None:
        latest = time.monotonic() + BOUND
        while not started.exists() or not started.read_text():
            if time.monotonic() > latest:
                return  # the cell ends by itself in the end, and the test fails
            time.sleep(0.02)
        time.sleep(0.5)
        os.kill(int(started.read_text()), signal.SIGKILL)
        killed.append(time.monotonic())

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with pytest.raises(ChapterFailed, match=r"01_a failed at cell 3: Kernel died") as caught:
        execute(chapter, {}, project.runs / "out", project.root)
    assert time.monotonic() - killed[0] < 20
    assert [path.name for path in project.runs.iterdir()] == ["out.failed.ipynb"]
    assert caught.value.kept is not None
    assert outputs(caught.value.kept).startswith("so far")


def test_memory_that_runs_out_is_named(tmp_path: Path) -> None:
    """A limit on memory, so that Python itself is refused: the cell fails and not the kernel."""
    project = Project(tmp_path)
    cell = """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
        hoard = bytearray(2**33)
    """
    chapter = Chapter(write_chapter(project, "01_a", cell))
    with pytest.raises(ChapterFailed, match=r"01_a failed at cell 2: MemoryError"):
        execute(chapter, {}, project.runs / "out", project.root)
