"""Chapters built as on other processors give the recorded values, and the tests of numbers pass there.

Environment variables make libraries choose the code of another processor. Only x86-64 can be played so.
"""

import os
import platform
import subprocess
import sys

import pytest
from checkout import copy_tree

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="no kinds are known of this processor"),
]

_NO_512 = "X86_V4 AVX512_ICL AVX512_SPR"  # numpy's names for what has AVX-512
KINDS = {
    "avx2": {  # a laptop, or a server without AVX-512
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "NPY_DISABLE_CPU_FEATURES": _NO_512,
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "old": {  # no AVX at all, and a libm without FMA
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "NPY_DISABLE_CPU_FEATURES": f"{_NO_512} X86_V3",
        "OPENBLAS_CORETYPE": "Nehalem",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
    },
}
RBP, PYTEST = ["-m", "rbp.cli", "--root", "."], ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", ""]
COMMANDS = [
    [*RBP, "book"],
    [*RBP, "verify"],
    [*PYTEST, "tests/rbp", "tests/ladder", "tests/companion"],  # the slow ones too
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_the_same(kind, tmp_path):
    tree = copy_tree(tmp_path / "tree")
    environment = os.environ | KINDS[kind]
    environment |= {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore::RuntimeWarning:numpy"}
    capability = "import rbp, torch; print(torch.backends.cpu.get_cpu_capability(), rbp.__file__)"
    said = subprocess.check_output([sys.executable, "-c", capability], env=environment, text=True).split()
    expected = [KINDS[kind]["ATEN_CPU_CAPABILITY"].upper(), str(tree / "src" / "rbp" / "__init__.py")]
    assert said == expected, "the variables have no effect"
    ended = {
        " ".join(arguments): subprocess.run([sys.executable, *arguments], cwd=tree, env=environment)
        for arguments in COMMANDS
    }
    assert [command for command, done in ended.items() if done.returncode] == []
