"""Kill `rbp book` at random moments, alone or with all that it has started: a rerun gives the same content."""

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import mini
import pytest
from apart import content, ended, kill, until

from companion.project import ROOT, Project
from rbp.io import lock

pytestmark = pytest.mark.slow
KILLS = 25
WITH_TIMES = ("book/made.html", "_sources/book/made.md", "_static/sentences.js", "searchindex.js")


def start(folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "rbp.cli", "--root", str(folder), "book", "--cores", "2"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=(folder / "said.txt").open("wb"),
        start_new_session=True,
    )


def settle(folder: Path) -> None:
    """A driver that is killed alone leaves Snakemake, which ends its work."""
    path = Project(folder).build / ".lock"
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as stream:
        until(lambda: lock(stream) is not False)


def made(folder: Path) -> dict[str, bytes]:
    project = Project(folder)
    pages = {f"html/{name}": data for name, data in content(project.html).items() if name not in WITH_TIMES}
    return pages | content(project.build, "results.json") | content(project.chapters)


def test_a_rerun_after_a_kill_gives_the_same(tmp_path: Path) -> None:
    rng, done = random.Random(0), 0  # noqa: S311
    prepared = {older: tmp_path / f"prepared-{older}" for older in (False, True)}
    for older, folder in prepared.items():
        mini.write_book(Project(folder))
        assert not older or ended(start(folder)) == 0
        (folder / "data" / "a.csv").write_text("x\n1\n2\n")  # what the older book does not have
    whole_folder, began = Path(shutil.copytree(prepared[False], tmp_path / "whole")), time.monotonic()
    assert ended(start(whole_folder)) == 0, "it fails without a kill too"
    lasts, expected = time.monotonic() - began, made(whole_folder)
    while done < KILLS:
        older, by_itself, after = rng.random() < 0.5, rng.random() < 0.5, rng.uniform(0, lasts)
        shutil.rmtree(tmp_path / "killed", ignore_errors=True)
        folder = Path(shutil.copytree(prepared[older], tmp_path / "killed"))
        process = start(folder)
        time.sleep(after)
        if process.poll() is not None:  # it was quicker than before
            lasts = after
            continue
        kill(process.pid, by_itself)
        ended(process)
        settle(folder)
        old, found = made(prepared[older]), made(folder)
        moment = f"killed after {after:.2f} of {lasts:.2f} s{', alone' * by_itself}{', over an older one' * older}"
        assert all(data in (old.get(name), expected.get(name)) for name, data in found.items()), moment
        for left in folder.rglob(".*.tmp"):
            os.utime(left, (0, 0))  # the rerun finds it a day later
        assert ended(start(folder)) == 0, f"{moment}: the rerun fails: {(folder / 'said.txt').read_text()}"
        assert made(folder) == expected, f"{moment}: the rerun gives another content"
        assert not [path for path in folder.rglob(".*.tmp") if ".snakemake" not in path.parts], moment
        done += 1
