"""Build the chapters as on other processors, verify the recorded values, and run the tests of numbers there.

    python tests/slow/processors.py [--kind avx2] [--kind zen] [--kind old] [--only chapters|tests]

Libraries choose their code by the processor; environment variables make them choose another's. Each kind gets a copy of
the tree without what was built, and a cache of its own for compiled code. Exits 1 if a value moved or a test failed.
Only x86-64 can be played so.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NO_512 = "X86_V4 AVX512_ICL AVX512_SPR"  # numpy's names for what has AVX-512
_AVX2 = {
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": _NO_512,
}
KINDS = {
    "avx2": _AVX2 | {"OPENBLAS_CORETYPE": "Haswell"},  # a laptop, or a server without AVX-512
    "zen": _AVX2 | {"OPENBLAS_CORETYPE": "Zen"},
    "old": {  # no AVX at all, and a libm without FMA
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "NPY_DISABLE_CPU_FEATURES": f"{_NO_512} X86_V3",
        "OPENBLAS_CORETYPE": "Nehalem",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
    },
}
DEFAULT = ("avx2", "old")
TESTS = ("rbp", "ladder", "companion")


def copy_tree(to: Path) -> None:
    """What git knows or would take, as it is now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def environment(kind: str, tree: Path, cache: Path) -> dict[str, str]:
    """For all that is run as on a processor of this kind."""
    own = {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    own |= {"TORCHINDUCTOR_CACHE_DIR": str(cache), "PYTHONWARNINGS": "ignore::RuntimeWarning:numpy"}
    return os.environ | KINDS[kind] | own


def commands(tree: Path, only: str | None) -> list[list[str]]:
    """What is run in the tree."""
    rbp = [sys.executable, "-m", "rbp.cli", "--root", str(tree)]
    chapters = [[*rbp, "book", "--", "_build/results.json"], [*rbp, "verify"]]
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", ""]  # the slow ones too
    tests = [[*pytest, *(f"tests/{name}" for name in TESTS)]]
    return {None: chapters + tests, "chapters": chapters, "tests": tests}[only]


def run(kind: str, only: str | None) -> list[str]:
    """The commands that failed, in words."""
    with tempfile.TemporaryDirectory(prefix=f"rbp-{kind}-") as folder:
        tree, cache = Path(folder) / "tree", Path(folder) / "cache"
        copy_tree(tree)
        env = environment(kind, tree, cache)
        ask = "import rbp, torch; print(torch.backends.cpu.get_cpu_capability(), rbp.__file__)"
        said = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True).stdout
        if said.split() != [KINDS[kind]["ATEN_CPU_CAPABILITY"].upper(), str(tree / "src" / "rbp" / "__init__.py")]:
            return [f"{kind}: the variables have no effect: {said.strip()}"]
        return [
            f"{kind}: {' '.join(command[2:6])} …"
            for command in commands(tree, only)
            if subprocess.run(command, cwd=tree, env=env, check=False).returncode
        ]


def main() -> None:
    """All kinds, one after the other."""
    parser = argparse.ArgumentParser(description="Build, verify and test as on other processors.")
    parser.add_argument("--kind", action="append", choices=KINDS, help="which (default: avx2 and old)")
    parser.add_argument("--only", choices=["chapters", "tests"], help="a part of it")
    chosen = parser.parse_args()
    if platform.machine() not in ("x86_64", "AMD64"):
        sys.exit(f"No kinds are known of this machine's processors ({platform.machine()}).")
    failed = []
    for kind in chosen.kind or DEFAULT:
        start = time.monotonic()
        own = run(kind, chosen.only)
        failed += own
        sys.stdout.write(f"{kind}: {'failed' if own else 'well'} after {time.monotonic() - start:.0f} s\n")
    for line in failed:
        sys.stdout.write(f"FAILED: {line}\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
