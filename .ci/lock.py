# /// script
# requires-python = ">=3.11"
# dependencies = ["cyclonedx-python-lib[json-validation]==11.12.0"]
# ///
"""`make lock`: the pins of all that pyproject.toml needs with EXTRAS, by uv, and the bill of materials.

- requirements.lock: the pins, each with the hashes of all its published files.
- requirements-torch.lock: torch and what its builds for CUDA need, without hashes, as the machine decides which build.
- environment.yml: both but for CUDA, for conda and Binder.
- requirements.cdx.json: the bill of materials, in CycloneDX's form: what may be installed, and what needs it.

A pin that is there stays, unless --upgrade is given, or one that is added does not go with it.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

ROOT = Path(__file__).parents[1]
LOCK, TORCH, CONDA, BILL = (
    ROOT / name for name in ("requirements.lock", "requirements-torch.lock", "environment.yml", "requirements.cdx.json")
)
EXTRAS = "book", "study", "live", "dev"
ENTRY = re.compile(r"^((\S+)==(\S+).*?)((?: \\\n    --hash=\S+)+)\n    # via (.*)\n", re.MULTILINE)


def main() -> None:
    """Resolve, then write the four files."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "all"
        path.write_text(LOCK.read_text() + TORCH.read_text())  # uv prefers what stands in its output
        command = [os.environ["UV"], "pip", "compile", "pyproject.toml", "--python-version", "3.11"]
        command += [word for extra in EXTRAS for word in ("--extra", extra)]
        command += ["--universal", "--generate-hashes", "--no-header", "--annotation-style", "line", "--quiet"]
        command += ["--output-file", str(path), *sys.argv[1:]]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # our own
        entries = ENTRY.findall(path.read_text())
        if len(entries) != len(re.findall("^[^ ]", path.read_text(), re.MULTILINE)):
            raise SystemExit("uv wrote what is not understood here: a package without hashes?")
    hashed, separate, conda = "", "", CONDA.read_text().split("- pip:")[0] + "- pip:\n"
    for pin, name, _, hashes, _ in entries:
        cuda = name.startswith(("nvidia-", "cuda-"))
        if cuda or name == "torch":
            separate += f"{pin}\n"
        else:
            hashed += f"{pin}{hashes}\n"
        conda += "" if cuda else f"      - {pin}\n"
    LOCK.write_text(hashed)
    TORCH.write_text(separate)
    CONDA.write_text(conda)
    BILL.write_text(bill([(name, version, needed_by) for _, name, version, _, needed_by in entries]))


def bill(packages: list[tuple[str, str, str]]) -> str:
    """The bill of materials of packages (name, version, who needs it), the same whenever it is made."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    root = Component(name=about["name"], description=about["description"], bom_ref=about["name"])
    parts = {
        name: Component(name=name, version=version, bom_ref=name, purl=PackageURL("pypi", None, name, version))
        for name, version, _ in packages
    }
    bom = Bom(components=parts.values())
    bom.metadata.component = root
    for user in [root, *parts.values()]:
        needs = [parts[name] for name, _, users in packages if user.name in re.findall(r"(?:^|, )([\w.-]+)", users)]
        bom.register_dependency(user, needs)
    text = JsonV1Dot6(bom).output_as_string()
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise SystemExit(str(wrong))
    written = json.loads(text)
    del written["serialNumber"], written["metadata"]["timestamp"]
    return json.dumps(written, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    main()
