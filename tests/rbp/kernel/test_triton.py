"""The kernels by Triton, run by its interpreter; on a GPU: `make gpu`."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from draws import loop_and_slow

pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="triton is not installed")


@pytest.mark.long
@pytest.mark.parametrize("profile", loop_and_slow("few", "full"))
def test_the_kernel_by_the_interpreter(profile: str) -> None:
    """In a process of its own: the interpreter must be chosen before triton is imported."""
    file = Path(__file__).with_name("test_linear_rank.py")
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"--hypothesis-profile={profile}", "-k", "tiles or triton", str(file)]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "passed" in done.stdout
