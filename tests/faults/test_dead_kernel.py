"""Fault 10: the system kills a kernel in the middle of a chapter, as it does where memory runs out, or its parent."""

import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest
from apart import BOUND
from mini import outputs, write_chapter
from papermill.clientwrap import PapermillNotebookClient

from companion.project import Project
from companion.run import Chapter, execute
from rbp.errors import ChapterFailed

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
    assert caught.value.partial_notebook is not None
    assert outputs(caught.value.partial_notebook).startswith("so far")


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


def test_a_kernel_that_is_still_starting_when_we_are_told_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal's exit comes up where nbclient waits for the kernel, of which it then takes no more care."""
    project, temporary = Project(tmp_path / "project"), tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    begun = []

    def stop(client: PapermillNotebookClient) -> None:
        begun.append(psutil.Process(client.km.provisioner.pid))
        raise SystemExit(143)

    monkeypatch.setattr(PapermillNotebookClient, "start_new_kernel_client", stop)
    with pytest.raises(SystemExit):
        execute(Chapter(write_chapter(project, "01_a")), {}, project.runs / "out", project.root)
    assert not begun[0].is_running()
    assert list(temporary.iterdir()) == []


SERVE = """
import pathlib, sys, time
from companion.project import Project
from companion.live.runs import Runs
Runs(Project(pathlib.Path(sys.argv[1]))).ask("01_a", {})
time.sleep(300)
"""


@pytest.mark.parametrize(
    "command", [["-m", "rbp.cli", "--root", "{root}", "run", "01_a"], ["-c", SERVE, "{root}"]], ids=["run", "server"]
)
def test_nothing_is_left_of_a_run_that_is_killed(tmp_path: Path, command: list[str]) -> None:
    """Its kernel, too, ends at once, and the folder from which the kernel was started is gone by then."""
    project, temporary = Project(tmp_path / "project"), tmp_path / "temporary"
    temporary.mkdir()
    left = temporary / ".rbp-kernel.01234567.tmp"  # by a kill before the kernel had started
    left.mkdir()
    cell = "import os, pathlib, time\npathlib.Path('kernel').write_text(str(os.getpid()))\ntime.sleep(300)"
    write_chapter(project, "01_a", cell)
    project.book.mkdir()
    for name in ("_config.yml", "CITATION.cff"):
        (project.root / name).touch()
    run = psutil.Popen(
        [sys.executable, *(word.replace("{root}", str(project.root)) for word in command)],
        cwd=project.root,
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    started, latest = project.root / "kernel", time.monotonic() + BOUND
    while not started.exists() or not started.read_text():
        assert time.monotonic() < latest
        time.sleep(0.02)
    others = run.children(recursive=True)
    assert int(started.read_text()) in [each.pid for each in others]
    run.kill()
    run.wait()
    assert psutil.wait_procs(others, BOUND)[1] == []
    assert list(temporary.iterdir()) == []
