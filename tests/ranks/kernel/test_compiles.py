"""The Triton kernel compiled for GPUs that are not here: Triton brings the compiler."""

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from draws import loop_and_slow

pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="triton is not installed")

BLOCK = {80: 166_912, 89: 101_376, 90: 232_448}  # bytes of shared memory, by capability
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16"}
PRODUCTS = {80: "mma.sync", 89: "mma.sync", 90: "wgmma.mma_async"}  # the units for short dtypes
MODES = "truth", "count", "peak"
EVERY = [(card, dtype, d, mode) for card in BLOCK for dtype in TYPES for d in (75, 768, 4096) for mode in MODES]
SHARE = [(80, torch.bfloat16, 768, "count"), (90, torch.bfloat16, 4096, "count")]


def compiled(card: int, dtype: torch.dtype, d: int, mode: str, options: bool) -> tuple[str, int]:
    """The kernel's code for a card, and the shared memory it takes; options: bias, scale, soft cap and rounding."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from rbp.ranks.kernel import triton_kernel

    shape, kernel = triton_kernel.shape_for(dtype, d, BLOCK[card]), triton_kernel._kernel
    signature = dict.fromkeys(("names", "own", "counts"), "*i32") | {"target": "*i64"}
    signature |= dict.fromkeys(("hidden", "weight"), TYPES[dtype])
    signature |= dict.fromkeys(("truth", "base", "sums"), "*fp32")
    signature |= dict.fromkeys(("height", "vocab", "d", "stride", "pitch"), "i32")
    signature |= {"scale": "fp32", "softcap": "fp32", "bias": "*fp32" if options else "constexpr"}
    fixed = {"MODE": mode, "WHOLE": d % shape.step == 0, "BM": shape.rows, "BN": shape.columns, "BK": shape.step}
    fixed |= dict.fromkeys(("BIAS", "SCALE", "CAP", "ROUND"), options) | ({} if options else {"bias": None})
    places = {name: (i,) for i, name in enumerate(kernel.arg_names)}
    whole = ["pitch", "vocab", *(["d", "stride"] if d % 16 == 0 else [])]  # multiples of 16, which Triton looks at
    aligned = [name for name, kind in signature.items() if kind[0] == "*" or name in whole]
    source = ASTSource(
        kernel,
        {name: signature.get(name, "constexpr") for name in places},
        constexprs={places[name]: value for name, value in fixed.items()},
        attrs={places[name]: [["tt.divisibility", 16]] for name in aligned},
    )
    how = {"num_warps": shape.warps, "num_stages": shape.stages, "enable_fp_fusion": False}
    done = triton.compile(source, target=GPUTarget("cuda", card, 32), options=how)
    return done.asm["ptx"], done.metadata.shared


@pytest.mark.parametrize("cases", loop_and_slow(SHARE, EVERY))
def test_it_compiles_and_fits(cases, tmp_path: Path) -> None:
    assembler = Path(find_spec("triton").origin).parent / "backends" / "nvidia" / "bin" / "ptxas"
    for card, dtype, d, mode in cases:
        options = d == 75
        code, shared = compiled(card, dtype, d, mode, options)
        assert shared <= BLOCK[card]
        assert (PRODUCTS[card] in code) == (dtype != torch.float32)
        (tmp_path / "kernel.ptx").write_text(code)
        command = [str(assembler), "-v", f"--gpu-name=sm_{card}{'a' * (card == 90)}", "kernel.ptx", "-o", "kernel"]
        said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
        spilled = int(re.search(r"(\d+) bytes spill stores", said)[1])
        assert options or spilled <= 64, (card, dtype, d, mode)  # bytes of a thread that its registers do not hold
