"""The Triton kernel compiled for GPUs that are not here: Triton brings the compiler."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from draws import loop_and_slow
from ranking_cases import has_compiler

from bench.kernels import MODES, SHARED, Variant, compiled
from companion.project import ROOT

pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="triton is not installed")

PRODUCTS = {80: "mma.sync", 89: "mma.sync", 90: "wgmma.mma_async"}  # the units for short dtypes
DTYPES = "float32", "bfloat16", "float16"
OPTIONS = [False] * 4, [True] * 4  # bias, scale, soft cap and rounding
EVERY = [
    (card, Variant(dtype, d, *options), mode)
    for card in PRODUCTS
    for dtype in DTYPES
    for d in (75, 4096)
    for options in OPTIONS
    for mode in MODES
]
SHARE = [(80, Variant("bfloat16", 75), "count"), (90, Variant("bfloat16", 4096, *OPTIONS[1]), "count")]

AGAIN = """
import sys, torch, triton
from bench.kernels import SHARED, Variant, compiled, elsewhere, part
from rbp.kernel import triton_kernel
from rbp.kernel.problem import problem
if __name__ == "__main__":
    (question,) = part(tiny=True)
    assert question.ask()["kernels"] == 3
    hits = []
    triton.knobs.compilation.listener = lambda cache_hit, **_: hits.append(cache_hit)
    given = problem(torch.zeros(70, 75), torch.zeros(701, 75), torch.zeros(70).long(), None, 1.0, None, None, None)
    work = triton_kernel.Work(given, triton_kernel.shape_for(torch.float32, 75, SHARED[90]))
    with elsewhere(90):  # as it runs: tensors that are there, of any height and vocabulary
        arguments, options = work.arguments("count", slice(0, 70), work.truth)
        triton_kernel._kernel.warmup(*arguments, grid=(1,), **options)
    for variant in (Variant("float32", 75), Variant("float32", 4096), Variant("float32", 64, bias=True)):
        compiled(90, SHARED[90], variant, "truth")
    print(hits)
"""


def spilled(code: str, card: int) -> int:
    """Bytes that a thread spills to memory for want of registers, as the assembler says."""
    import triton

    assembler = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernel.ptx").write_text(code)
        command = [str(assembler), "-v", f"--gpu-name=sm_{card}{'a' if card >= 90 else ''}", "kernel.ptx"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return int(re.search(r"(\d+) bytes spill stores", done.stderr)[1])


@pytest.mark.parametrize("cases", loop_and_slow(SHARE, EVERY))
def test_it_compiles_fits_and_spills_no_registers(cases) -> None:
    for card, variant, mode in cases:
        found = compiled(card, SHARED[card], variant, mode)
        assert found.shared <= SHARED[card]
        assert (PRODUCTS[card] in found.code) == (variant.dtype != "float32")
        if mode != "peak":  # whose launch is rare, and may spill
            assert spilled(found.code, card) <= 16, (card, variant, mode)


@pytest.mark.builds
@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler: nothing is compiled for the CPU")
def test_what_other_processes_compiled_is_not_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "again.py").write_text(AGAIN)
    own = os.environ | {"TRITON_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "again.py")]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    # one code for every d of one tile; options are other code
    assert done.stdout == "[True, True, False]\n"
