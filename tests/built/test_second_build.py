"""A second build, in another folder with every chapter executed anew: the same bytes.

The steps' tables, which take minutes, are not made again: `rbp verify` holds what follows from them to the accepted
values.
"""

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from companion import report
from companion.project import ROOT, Project

pytestmark = pytest.mark.slow

#: what may differ: the page that holds times and the commit
MADE = {"book/made.html", "_sources/book/made.md"}


def _built_again(folder: Path) -> Path:
    """Build the book in a copy of the working tree below a folder; returns the copy."""
    other = folder / "another folder"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (other / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, other / name)
    shutil.copytree(Project().steps, other / "_build" / "steps")
    command = [sys.executable, "-m", "rbp.cli", "book"]
    environment = os.environ | {"PYTHONPATH": str(other / "src")}
    done = subprocess.run(command, cwd=other, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return other


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_two_builds_give_the_same_bytes(book: Path, tmp_path: Path) -> None:
    other = _built_again(tmp_path)
    again = other / "_build" / "html"
    assert again.is_dir(), "the copy has built into another folder than its own"
    assert _files(again) == _files(book) - {"report.pdf"}  # that is set when it is asked for
    changed = [name for name in sorted(_files(again)) if not filecmp.cmp(book / name, again / name, shallow=False)]
    assert set(changed) <= MADE
    assert (other / "_build" / "results.json").read_bytes() == (ROOT / "_build" / "results.json").read_bytes()
    assert report.make(Project(other)).read_bytes() == report.make(Project()).read_bytes()
