"""The tests themselves: what waits for another process ends, and says why."""

import subprocess
import sys
import time
from pathlib import Path

import injected
import pytest
from apart import apart, ended
from injected import HUNG, trial

pytestmark = pytest.mark.builds  # it waits


def sleep_for_long() -> None:
    time.sleep(60)


def sleep_in_a_trial(folder: Path) -> tuple[int, str]:
    injected.SECONDS = 1.0
    outcome = trial(lambda: time.sleep(60), folder)
    return outcome.code, outcome.said


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
