"""The Triton kernel: run by its interpreter, and compiled for GPUs that are not here, as Triton brings the compiler."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from draws import loop_and_slow
from elsewhere import MODES, SHARED, Variant, compiled

pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="triton is not installed")

PRODUCTS = {80: "mma.sync", 89: "mma.sync", 90: "wgmma.mma_async"}  # the units for short dtypes
OPTIONS = [False] * 4, [True] * 4  # bias, scale, soft cap and rounding
EVERY = [
    (card, Variant(dtype, d, *options), mode)
    for card in PRODUCTS
    for dtype in ("float32", "bfloat16", "float16")
    for d in (75, 4096)
    for options in OPTIONS
    for mode in MODES
]
SHARE = [(80, Variant("bfloat16", 75), "count"), (90, Variant("bfloat16", 4096, *OPTIONS[1]), "count")]


@pytest.mark.builds
@pytest.mark.parametrize("profile", loop_and_slow("few", "full"))
def test_the_kernel_by_the_interpreter(profile: str) -> None:
    """In a process of its own: the interpreter must be chosen before triton is imported."""
    file = Path(__file__).with_name("triton_cases.py")
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"--hypothesis-profile={profile}", str(file)]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "passed" in done.stdout


@pytest.mark.parametrize("cases", loop_and_slow(SHARE, EVERY))
def test_it_compiles_and_fits(cases) -> None:
    for card, variant, mode in cases:
        code, shared = compiled(card, variant, mode)
        assert shared <= SHARED[card]
        assert (PRODUCTS[card] in code) == (variant.dtype != "float32")
