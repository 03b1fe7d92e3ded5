"""The tests themselves: what waits for another process ends, and says why."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import injected
import pytest
from apart import apart, ended
from injected import HUNG, trial

pytestmark = pytest.mark.builds  # it waits


def threads_of_the_server() -> int:
    return len(list(Path(f"/proc/{os.getppid()}/task").iterdir()))


def sleep_for_long() -> None:
    time.sleep(60)


def sleep_in_a_trial(folder: Path) -> tuple[int, str]:
    injected.SECONDS = 1.0
    outcome = trial(lambda: time.sleep(60), folder)
    return outcome.code, outcome.said


def test_processes_come_from_a_server_without_threads():
    """So there is nothing that a copy of it could wait for in vain."""
    assert apart(threads_of_the_server) == 1


def test_what_takes_too_long_is_ended_and_says_where_it_was(tmp_path):
    with pytest.raises(AssertionError, match=r"(?s)not ended after 1 s.*in sleep_for_long"):
        apart(sleep_for_long, seconds=1.0)
    code, said = apart(sleep_in_a_trial, tmp_path)
    assert code == HUNG
    assert "sleep_in_a_trial" in said


def test_a_process_that_does_not_end_is_killed():
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(AssertionError, match="has not ended after 1 s"):
        ended(sleeping, 1.0)
    assert sleeping.wait(10) == -9


def fork_with_threads(folder: Path) -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    trial(lambda: None, folder)


def test_a_process_with_threads_is_not_forked(tmp_path):
    with pytest.raises(AssertionError, match="several threads"):
        apart(fork_with_threads, tmp_path)
