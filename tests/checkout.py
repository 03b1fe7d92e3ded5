"""What is in the repository, as git lists it."""

import shutil
import subprocess
from pathlib import Path

from companion.project import ROOT


def checked_in(*options: str) -> list[str]:
    """The files that git tracks and that are there, by their paths from the root."""
    command = ["git", "ls-files", "-z", *options]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def copy_tree(to: Path) -> Path:
    """Copy what git knows or would take, as it is now; returns the copy."""
    for name in checked_in("--cached", "--others", "--exclude-standard"):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to / name)
    return to
