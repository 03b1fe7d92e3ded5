"""Kill work at random moments, again and again: after every rerun the content is the same.

An extraction is a function in a process of its own (see `apart`); `rbp run` and `rbp book` are the commands, with a
book of three chapters, killed alone or with all that they have started. Half of the commands find an older result in
place. Trainings are killed in `tests/ladder/test_making.py`.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mini
import tiny
from apart import Apart, apart, content, ended, kill

from companion.project import ROOT, Project
from rbp.errors import DataError
from rbp.extract.extraction import Settings, extract
from rbp.extract.protocol import protocol
from rbp.extract.store import open_store
from rbp.io import lock

Content = dict[str, bytes]


def command(project: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """The command `rbp` on a project, begun."""
    return subprocess.Popen(
        [sys.executable, "-m", "rbp.cli", "--root", str(project), *arguments],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=(project / "said.txt").open("wb"),
        start_new_session=True,
    )


@dataclass(frozen=True)
class Work:
    """What is killed.

    prepare: makes the input in a folder, and with True an older result too; start: begins; result: what it has made;
    between: whether that is whole after a kill, given the older and the new result; settle: waits until what a killed
    one has started has ended; older: whether there may be an older result.
    """

    name: str
    prepare: Callable[[Path, bool], object]
    start: Callable[[Path], Any]
    result: Callable[[Path], Content]
    between: Callable[[Content, Content, Content], bool]
    settle: Callable[[Path], object] = lambda folder: None
    older: bool = False


def _of_either(found: Content, old: Content, new: Content) -> bool:
    return all(data in (old.get(name), new.get(name)) for name, data in found.items())


def _make_model(folder: Path) -> None:
    tiny.save_model(folder / "model")
    tiny.write_texts(folder / "corpus.jsonl", tiny.texts(100))


def _extract(folder: Path) -> None:
    windows = protocol("windows", length=64, context=32, pack=1)
    given = [str(folder / "model")], [str(folder / "corpus.jsonl")], windows, folder / "out"
    extract(*given, Settings(backend="reference"))


def extraction() -> Work:
    """A rank store of some hundred parts."""

    def result(folder: Path) -> Content:
        found = content(folder / "out", "*/parts/*")
        for manifest in (folder / "out").glob("*/manifest.json"):
            try:
                found["ranks"] = open_store(manifest.parent).ranks().to_csv().encode()
            except DataError:  # not finished
                continue
        return found

    def prepare(folder: Path, older: bool) -> None:
        apart(_make_model, folder)

    return Work("extraction", prepare, lambda folder: Apart(_extract, folder), result, _of_either)


def one_chapter() -> Work:
    """`rbp run` into a folder that may hold an older run."""

    def prepare(folder: Path, older: bool) -> None:
        mini.write_book(Project(folder))
        if older:
            assert ended(command(folder, "run", "1", "--out", "out")) == 0

    def start(folder: Path) -> "subprocess.Popen[bytes]":
        return command(folder, "run", "1", "-p", "k=7", "--out", "out")

    def between(found: Content, old: Content, new: Content) -> bool:
        return found in ({}, old, new)

    return Work("rbp run", prepare, start, lambda folder: content(folder / "out"), between, older=True)


def whole_book() -> Work:
    """`rbp book` on three chapters, where an older build may be."""

    def prepare(folder: Path, older: bool) -> None:
        project = Project(folder)
        mini.write_book(project)
        if older:
            assert ended(start(folder)) == 0
        (project.book / "parameters.toml").write_text("[01_a]\nk = 40\n")

    def start(folder: Path) -> "subprocess.Popen[bytes]":
        return command(folder, "book", "--cores", "2")

    def result(folder: Path) -> Content:
        project = Project(folder)
        changing = ("book/made.html", "_sources/book/made.md", "searchindex.js")  # they hold times
        pages = {name: data for name, data in content(project.html).items() if name not in changing}
        found = {f"html/{name}": data for name, data in pages.items()}
        if project.results.exists():
            found["results.json"] = project.results.read_bytes()
        return found | {f"chapters/{name}": data for name, data in content(project.chapters).items()}

    def between(found: Content, old: Content, new: Content) -> bool:
        pages = [{n: d for n, d in each.items() if n.startswith("html/")} for each in (found, old, new)]
        return pages[0] in ({}, *pages[1:]) and _of_either(found, old, new)

    def settle(folder: Path) -> None:
        """A driver that is killed alone leaves Snakemake, which ends its work; meanwhile no other build begins."""
        until = time.monotonic() + 300
        while not is_free(folder):
            assert time.monotonic() < until, "what a killed build has left goes on for ever"
            time.sleep(0.1)

    return Work("rbp book", prepare, start, result, between, settle, older=True)


def is_free(folder: Path) -> bool:
    """Whether no build of the book in the folder is going on."""
    path = Project(folder).build / ".lock"
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as stream:
        return lock(stream) is not False


WORKS = {"extraction": extraction, "rbp run": one_chapter, "rbp book": whole_book}


def _said(process: Any, folder: Path) -> str:
    return str(process.said) if isinstance(process, Apart) else (folder / "said.txt").read_text()


def kills(work: Work, base: Path, count: int, seed: int = 0) -> Iterator[str]:
    """Kill `work` `count` times and run it again each time; yields what happened. Raises AssertionError."""
    rng = random.Random(seed)  # noqa: S311
    before: dict[bool, Content] = {}
    for older in (False, True) if work.older else (False,):
        place = base / f"prepared-{older}"
        place.mkdir(parents=True)
        work.prepare(place, older)
        before[older] = work.result(place)
    shutil.copytree(base / "prepared-False", base / "whole")
    began = time.monotonic()
    assert ended(work.start(base / "whole")) == 0, f"{work.name} fails without a kill too"
    lasts, whole = time.monotonic() - began, work.result(base / "whole")
    done = 0
    while done < count:
        folder, older, by_itself = base / "killed", work.older and rng.random() < 0.5, rng.random() < 0.5
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(base / f"prepared-{older}", folder)
        process = work.start(folder)
        after = rng.uniform(0, lasts)
        time.sleep(after)
        if process.poll() is not None:  # it was quicker than before
            lasts = after
            continue
        kill(process.pid, by_itself)
        ended(process)
        work.settle(folder)
        found = work.result(folder)
        what = f"{work.name} killed after {after:.2f} of {lasts:.2f} s" + (", alone" if by_itself else "")
        assert work.between(found, before[older], whole), f"{what}: neither the old nor the new content is there"
        assert ended(again := work.start(folder)) == 0, f"{what}: the rerun fails: {_said(again, folder)}"
        assert work.result(folder) == whole, f"{what}: the rerun gives another content"
        left = [path.name for path in folder.rglob(".*.tmp") if ".snakemake" not in path.parts]
        assert not left, f"{what}: {left} are left over"
        done += 1
        yield f"{what}: {len(found)} of {len(whole)} files were there; the same after the rerun"
