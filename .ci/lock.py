"""`make lock`: the pins of all that pyproject.toml needs with EXTRAS, by uv.

- requirements.lock: the pins, each with the hashes of all its published files.
- requirements-torch.lock: torch and what its builds for CUDA need, without hashes, as the machine decides which build.
- environment.yml: both but for CUDA, and the two packages of this checkout, for conda and Binder.

A pin that is there stays, unless --upgrade is given, or one that is added does not go with it.
"""

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
LOCK, TORCH, CONDA = (ROOT / name for name in ("requirements.lock", "requirements-torch.lock", "environment.yml"))
PROJECTS = "pyproject.toml", "src/pyproject.toml"
EDITABLE = "      - -e .\n      - -e ./src\n"  # so written that Binder sees that it needs the checkout to install them
EXTRAS = "adapters", "devices", "gguf", "study", "dev"
ENTRY = re.compile(r"^((\S+)==\S+.*?)((?: \\\n    --hash=\S+)+)\n    # via .*\n", re.MULTILINE)


def main() -> None:
    """Resolve, then write the three files."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "all"
        path.write_text(LOCK.read_text() + TORCH.read_text())  # uv prefers what stands in its output
        command = [sys.executable, "-m", "uv", "pip", "compile", *PROJECTS, "--python-version", "3.11"]
        command += [word for extra in EXTRAS for word in ("--extra", extra)]
        command += ["--universal", "--generate-hashes", "--no-header", "--annotation-style", "line", "--quiet"]
        command += ["--output-file", str(path), *sys.argv[1:]]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # our own
        entries = ENTRY.findall(path.read_text())
        if len(entries) != len(re.findall("^[^ ]", path.read_text(), re.MULTILINE)):
            raise SystemExit("uv wrote what is not understood here: a package without hashes?")
    hashed, separate, conda = "", "", CONDA.read_text().split("- pip:")[0] + "- pip:\n" + EDITABLE
    for pin, name, hashes in entries:
        cuda = name.startswith(("nvidia-", "cuda-"))
        if cuda or name == "torch":
            separate += f"{pin}\n"
        else:
            hashed += f"{pin}{hashes}\n"
        conda += "" if cuda else f"      - {pin}\n"
    LOCK.write_text(hashed)
    TORCH.write_text(separate)
    CONDA.write_text(conda)


if __name__ == "__main__":
    main()
