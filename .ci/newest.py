"""`make newest`: the book with the newest versions of all packages, and what moved beside the one with the pins.

The latter must be built. In _build/newest an environment and a clone of the commit are made anew, and the book is built
there. Writes book/newest.json (`rbp.book.newest`), which the page "How this book was made" shows once it is committed,
prints it as Markdown, and exits 1 if the book could not be built, or if anything moved.
"""

import json
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rbp.book.newest import Newest, compare, section
from rbp.core.files import write_file
from rbp.core.paths import Project

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "book" / "newest.json"
FOLDER = ROOT / "_build" / "newest"
PYTHON = FOLDER / "venv" / "bin" / "python"
CLONE = Project(FOLDER / "book")
LIFTED = ("torch",)
"""What pyproject.toml pins for the sake of its build, and whose newest is tried all the same."""


def main() -> None:
    """Install, build, compare."""
    if changed := said("git", "status", "--porcelain", "--", ".", f":!{REPORT.relative_to(ROOT)}"):
        raise SystemExit(f"The newest book is that of the commit. Commit these first, or undo them:\n{changed}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    about: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "commit": said("git", "rev-parse", "HEAD")}
    about |= {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    about |= {"held": held(), "packages": 0, "versions": {}}
    failed = failure("git", "clone", "--quiet", str(ROOT), str(CLONE.root)) or installing()
    if not failed:
        about |= versions()
        failed = failure(str(PYTHON), "-m", "rbp.cli", "book")
    about |= {"failed": failed} if failed else compare(Project(ROOT), CLONE)
    found = Newest.model_validate(about)
    write_file(REPORT, json.dumps(found.model_dump(), indent=1, ensure_ascii=False) + "\n")
    say(section(Project(ROOT)))
    raise SystemExit(0 if found.as_before else 1)


def needs() -> list[str]:
    """What pyproject.toml names for the book."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["book"]]


def held() -> list[str]:
    """Those that it bounds."""
    return [each for each in needs() if re.search(r"[<=~!]", each) and not each.startswith(LIFTED)]


def installing() -> str:
    """Make the environment; what kept it from being made, or ""."""
    uv, lifted = [sys.executable, "-m", "uv"], FOLDER / "lifted.txt"
    lifted.write_text("\n".join(LIFTED))
    install = ["pip", "install", "--python", str(PYTHON), "--overrides", str(lifted), "--editable", "book[book]"]
    made = failure(*uv, "venv", "--quiet", "--python", sys.executable, str(PYTHON.parents[1]))
    return made or failure(*uv, *install)


def versions() -> dict[str, Any]:
    """How many packages are compared, and the pinned and the newest version of those that differ; without CUDA's."""
    locks = "".join((ROOT / name).read_text() for name in ("requirements.lock", "requirements-torch.lock"))
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", locks, re.MULTILINE))
    listed = json.loads(said(sys.executable, "-m", "uv", "pip", "list", "--format", "json", "--python", str(PYTHON)))
    newest = {each["name"]: each["version"].partition("+")[0] for each in listed}
    both = {
        name: (pinned.get(name, "none"), version)
        for name, version in newest.items()
        if name != "rbp" and not name.startswith(("nvidia-", "cuda-"))
    }
    return {"packages": len(both), "versions": {name: two for name, two in both.items() if two[0] != two[1]}}


def said(*command: str) -> str:
    """What a command of ours prints."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


def failure(*command: str) -> str:
    """What a command says that fails, its last lines and those that speak of failing; "" if it does not."""
    lines: list[str] = []
    with subprocess.Popen(command, cwd=FOLDER, stdout=-1, stderr=subprocess.STDOUT, text=True) as running:  # noqa: S603
        for line in running.stdout or ():
            say(line.rstrip())
            lines.append(line)
    if not running.returncode:
        return ""
    kept = [line for i, line in enumerate(lines) if "failed" in line or i >= len(lines) - 10]
    return "".join(kept).replace(str(FOLDER), "…").strip() or f"{command[0]} ended with {running.returncode}"


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
