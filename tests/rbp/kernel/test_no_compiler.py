"""On a machine without a C++ compiler: the same ranks, and one message."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import torch
from rbp.kernel import linear_rank
generator = torch.Generator().manual_seed(0)
hidden, weight = (torch.randn(n, 48, generator=generator) for n in (300, 4000))
target = torch.randint(0, 4000, (300,), generator=generator)
judge = linear_rank(hidden, weight, target, backend="reference")
for dtype in (torch.float32, torch.float32, torch.float64):
    got = linear_rank(hidden.to(dtype), weight.to(dtype), target, backend="blocked")
    assert (got.nll - judge.nll).abs().max() < 1e-4
    assert (got.greater != judge.greater).sum() <= 2 * (dtype == torch.float64)
print("done")
"""


@pytest.mark.builds
def test_ranks_without_a_compiler(tmp_path: Path) -> None:
    environment = os.environ | {"CXX": "/nonexistent/c++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    assert done.stderr.count("ranking runs on plain tiles: the same counts, slower") == 1
