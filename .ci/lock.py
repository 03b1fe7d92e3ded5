"""`make lock`: the pins of all that pyproject.toml needs with EXTRAS, by uv.

- requirements.lock: the pins, each with the hashes of all its published files.
- requirements-checks.lock: likewise, what only the extra CHECKS needs. No chapter is made from it.
- requirements-torch.lock: torch and what its builds for CUDA need, without hashes, as the machine decides which build.
- environment.yml: all but for CUDA, and the two packages of this checkout, for conda and Binder.

A pin that is there stays, unless --upgrade is given, or one that is added does not go with it.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
NAMES = "requirements.lock", "requirements-checks.lock", "requirements-torch.lock", "environment.yml"
LOCK, FOR_CHECKS, TORCH, CONDA = (ROOT / name for name in NAMES)
PROJECTS = "pyproject.toml", "src/pyproject.toml"
EDITABLE = "      - -e .\n      - -e ./src\n"  # so written that Binder sees that it needs the checkout to install them
EXTRAS = "adapters", "devices", "gguf", "study", "dev"
CHECKS = "checks"
ENTRY = re.compile(r"^((\S+)==\S+.*?)((?: \\\n    --hash=\S+)+)\n    # via (.*)\n", re.MULTILINE)


def only_for_checks(needed_by: Mapping[str, set[str]]) -> set[str]:
    """Select the packages of the extra CHECKS, and what only these need. Each package has the names of who needs it."""
    extras = tomllib.loads((ROOT / "src" / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {re.split(r"[^\w.-]", need)[0].lower() for need in extras[CHECKS]}
    chosen: set[str] = set()
    while more := {
        name
        for name, by in needed_by.items()
        if name not in chosen and all(each in chosen or ("pyproject.toml" in each and name in named) for each in by)
    }:
        chosen |= more
    return chosen


def main() -> None:
    """Resolve, then write the four files."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "all"
        path.write_text(
            "".join(file.read_text() for file in (LOCK, FOR_CHECKS, TORCH))
        )  # uv prefers what stands in its output
        command = [sys.executable, "-m", "uv", "pip", "compile", *PROJECTS, "--python-version", "3.11"]
        command += [word for extra in (*EXTRAS, CHECKS) for word in ("--extra", extra)]
        command += ["--universal", "--generate-hashes", "--no-header", "--annotation-style", "line", "--quiet"]
        command += ["--output-file", str(path), *sys.argv[1:]]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # our own
        entries = ENTRY.findall(path.read_text())
        if len(entries) != len(re.findall("^[^ ]", path.read_text(), re.MULTILINE)):
            raise SystemExit("uv wrote what is not understood here: a package without hashes?")
    checks = only_for_checks({name: set(via.split(", ")) for _, name, _, via in entries})
    hashed, for_checks, separate, conda = "", "", "", CONDA.read_text().split("- pip:")[0] + "- pip:\n" + EDITABLE
    for pin, name, hashes, _ in entries:
        cuda = name.startswith(("nvidia-", "cuda-"))
        if cuda or name == "torch":
            separate += f"{pin}\n"
        elif name in checks:
            for_checks += f"{pin}{hashes}\n"
        else:
            hashed += f"{pin}{hashes}\n"
        conda += "" if cuda else f"      - {pin}\n"
    LOCK.write_text(hashed)
    FOR_CHECKS.write_text(for_checks)
    TORCH.write_text(separate)
    CONDA.write_text(conda)


if __name__ == "__main__":
    main()
