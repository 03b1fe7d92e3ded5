"""What is in the repository, as git lists it."""

import subprocess

from companion.project import ROOT


def checked_in() -> list[str]:
    """The files that git tracks and that are there, by their paths from the root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
