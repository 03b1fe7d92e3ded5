"""Runs the tests of the Triton kernel by its interpreter, which must be chosen before triton is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from draws import loop_and_slow


@pytest.mark.builds
@pytest.mark.parametrize("profile", loop_and_slow("few", "full"))
def test_the_kernel_by_the_interpreter(profile: str) -> None:
    pytest.importorskip("triton")
    file = Path(__file__).with_name("triton_cases.py")
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"--hypothesis-profile={profile}", str(file)]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "passed" in done.stdout
