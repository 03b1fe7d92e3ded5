"""Runs the tests of the Triton kernel by its interpreter, which must be chosen before triton is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def test_the_kernel_by_the_interpreter() -> None:
    pytest.importorskip("triton")
    file = Path(__file__).with_name("interpreted_triton.py")
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([*command, str(file)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "passed" in done.stdout
