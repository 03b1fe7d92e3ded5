"""Kill `rbp run` and `rbp book` at random moments, again and again: after every rerun the content is the same.

The book has three chapters. The command is killed alone or with all that it has started; half of the runs find an older
result in place. Extractions and trainings are killed at every write (`writes.py`).
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import mini
import pytest
from apart import content, ended, kill

from companion.project import ROOT, Project
from rbp.io import lock

pytestmark = pytest.mark.slow
KILLS = 25
Content = dict[str, bytes]


class Work(NamedTuple):
    """A command on a project, what it has made, and whether what is there after a kill is whole, old or new."""

    command: list[str]
    result: Callable[[Path], Content]
    between: Callable[[Content, Content, Content], bool]


def run_is_whole(found: Content, old: Content, new: Content) -> bool:
    return found in ({}, old, new)


def made_by_book(folder: Path) -> Content:
    project = Project(folder)
    changing = ("book/made.html", "_sources/book/made.md", "_static/sentences.js", "searchindex.js")  # with times
    pages = {name: data for name, data in content(project.html).items() if name not in changing}
    found = {f"html/{name}": data for name, data in pages.items()}
    if project.results.exists():
        found["results.json"] = project.results.read_bytes()
    return found | {f"chapters/{name}": data for name, data in content(project.chapters).items()}


def book_is_whole(found: Content, old: Content, new: Content) -> bool:
    pages = [{n: d for n, d in each.items() if n.startswith("html/")} for each in (found, old, new)]
    files = all(data in (old.get(name), new.get(name)) for name, data in found.items())
    return pages[0] in ({}, *pages[1:]) and files


WORKS = {
    "rbp run": Work(["run", "1", "--out", "out"], lambda folder: content(folder / "out"), run_is_whole),
    "rbp book": Work(["book", "--cores", "2"], made_by_book, book_is_whole),
}


def start(work: Work, folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "rbp.cli", "--root", str(folder), *work.command],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=(folder / "said.txt").open("wb"),
        start_new_session=True,
    )


def settle(folder: Path) -> None:
    """A driver that is killed alone leaves Snakemake, which ends its work; meanwhile no other build begins."""
    until, path = time.monotonic() + 300, Project(folder).build / ".lock"
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as stream:
        while lock(stream) is False:
            assert time.monotonic() < until, "what a killed build has left goes on for ever"
            time.sleep(0.1)


@pytest.fixture(params=WORKS)
def work(request: pytest.FixtureRequest) -> Work:
    return WORKS[request.param]


@pytest.fixture
def prepared(work: Work, tmp_path: Path) -> dict[bool, Path]:
    """A book, and the same with an older result, since when its data have changed."""
    folders = {older: tmp_path / f"prepared-{older}" for older in (False, True)}
    for older, folder in folders.items():
        mini.write_book(Project(folder))
        if older:
            assert ended(start(work, folder)) == 0
        (folder / "data" / "a.csv").write_text("x\n1\n2\n")
    return folders


def test_a_rerun_after_a_kill_gives_the_same(work: Work, prepared: dict[bool, Path], tmp_path: Path) -> None:
    rng, done = random.Random(0), 0  # noqa: S311
    whole_folder = Path(shutil.copytree(prepared[False], tmp_path / "whole"))
    began = time.monotonic()
    assert ended(start(work, whole_folder)) == 0, "it fails without a kill too"
    lasts, whole = time.monotonic() - began, work.result(whole_folder)
    while done < KILLS:
        older, by_itself, after = rng.random() < 0.5, rng.random() < 0.5, rng.uniform(0, lasts)
        shutil.rmtree(tmp_path / "killed", ignore_errors=True)
        folder = Path(shutil.copytree(prepared[older], tmp_path / "killed"))
        process = start(work, folder)
        time.sleep(after)
        if process.poll() is not None:  # it was quicker than before
            lasts = after
            continue
        kill(process.pid, by_itself)
        ended(process)
        settle(folder)
        what = f"killed after {after:.2f} of {lasts:.2f} s{', alone' * by_itself}{', over an older one' * older}"
        assert work.between(work.result(folder), work.result(prepared[older]), whole), what
        assert ended(start(work, folder)) == 0, f"{what}: the rerun fails: {(folder / 'said.txt').read_text()}"
        assert work.result(folder) == whole, f"{what}: the rerun gives another content"
        left = [path.name for path in folder.rglob(".*.tmp") if ".snakemake" not in path.parts]
        assert not left, f"{what}: {left} are left over"
        done += 1
