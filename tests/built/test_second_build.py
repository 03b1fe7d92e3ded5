"""A second build, in another folder with every chapter executed anew: the same bytes.

The steps' tables, which take minutes, are not made again: `rbp verify` holds what follows from them to the accepted
values.
"""

import filecmp
import os
import shutil
import subprocess
import sys

import pytest
from checkout import copy_tree

from companion import report
from companion.project import Project

pytestmark = pytest.mark.slow

#: what may differ: the page that holds times and the commit
MADE = {"book/made.html", "_sources/book/made.md"}


def _files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_two_builds_give_the_same_bytes(book, tmp_path):
    other = Project(copy_tree(tmp_path / "another folder"))
    shutil.copytree(Project().steps, other.steps)
    command, environment = [sys.executable, "-m", "rbp.cli", "book"], {"PYTHONPATH": str(other.root / "src")}
    done = subprocess.run(command, cwd=other.root, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert other.html.is_dir(), "the copy has built into another folder than its own"
    assert _files(other.html) == _files(book) - {"report.pdf"}  # that is set when it is asked for
    changed = [name for name in _files(other.html) if not filecmp.cmp(book / name, other.html / name, shallow=False)]
    assert set(changed) <= MADE
    assert other.results.read_bytes() == Project().results.read_bytes()
    assert report.make(other).read_bytes() == report.make(Project()).read_bytes()
