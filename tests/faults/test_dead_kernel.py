"""The system kills a kernel in the middle of a chapter, as it does where memory runs out, or its parent."""

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


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, in this process and those that it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_a_kernel_that_is_still_starting_when_we_are_told_to_stop(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal's exit comes up where nbclient waits for the kernel, of which it then takes no more care."""
    project, begun = Project(tmp_path / "project"), []

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
def test_nothing_is_left_of_a_run_that_is_killed(tmp_path: Path, temporary: Path, command: list[str]) -> None:
    """Its kernel, too, ends at once, and the folder from which the kernel was started is gone by then."""
    project = Project(tmp_path / "project")
    (temporary / ".rbp-kernel.01234567.tmp").mkdir()  # left by a kill before the kernel had started
    write_chapter(project, "01_a", LONG_CELL)
    project.book.mkdir()
    for name in ("_config.yml", "CITATION.cff"):
        (project.root / name).touch()
    words = [word.replace("{root}", str(project.root)) for word in command]
    run = psutil.Popen([sys.executable, *words], cwd=project.root)
    kernel = started(project.root / "kernel")
    others = run.children(recursive=True)
    assert kernel in [each.pid for each in others]
    run.kill()
    run.wait()
    assert psutil.wait_procs(others, BOUND)[1] == []
    assert list(temporary.iterdir()) == []
