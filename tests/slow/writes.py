"""Failures at every step of writing rank stores and chapters.

After each, what can be read is the old content or the new, whole, or an error; and a rerun gives the new content.
"""

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mini
import tiny
import torch
from apart import content
from injected import CLEAN, DONE, KILLED, KINDS, trial

from companion.execute import results
from companion.execute import run as chapters
from companion.execute.run import Chapter, execute
from companion.project import Project
from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract.extraction import extract
from rbp.io import write_file
from rbp.models import load as models_module
from rbp.models.find import find_model
from rbp.models.load import load_model, load_tokenizer
from rbp.store import open_store
from rbp.texts.protocol import protocol


@dataclass(frozen=True)
class Case:
    """One thing that is written: makes what is there before, writes, gives what a reader gets, and what else he may."""

    prepare: Callable[[Path], object]
    act: Callable[[Path], object]
    seen: Callable[[Path], Any]
    on_the_way: Callable[[Any, Any], bool] = lambda found, new: False


def a_store(models: Path) -> Case:
    files = find_model(str(models))
    tokenizer, language = load_tokenizer(files), load_model(files, "float32", torch.device("cpu"))

    def prepare(folder: Path) -> None:
        tiny.write_texts(folder / "corpus.jsonl", tiny.texts(8, longest=30))
        act(folder)
        (store,) = (folder / "out").iterdir()
        for part in sorted((store / "parts").iterdir())[2:]:
            part.unlink()

    def act(folder: Path) -> None:
        models_module.load_tokenizer, models_module.load_model = lambda files: tokenizer, lambda *which: language
        windows = protocol("windows", length=32, context=16, pack=2)
        extract([files], [str(folder / "corpus.jsonl")], windows, folder / "out", Settings(backend="reference"))

    def seen(folder: Path) -> Any:
        tokens, parts = None, content(folder / "out", "*/parts/*")
        for manifest in (folder / "out").glob("*/manifest.json"):
            try:
                tokens = open_store(manifest.parent).ranks().to_csv()
            except DataError:  # not finished
                continue
        return {"parts": parts, "tokens": tokens}

    def on_the_way(found: Any, new: Any) -> bool:
        return found["tokens"] in (None, new["tokens"]) and found["parts"].items() <= new["parts"].items()

    return Case(prepare, act, seen, on_the_way)


def an_executed_chapter(model: Path) -> Case:
    """The folder of an executed chapter, in place of an older one; without a kernel."""

    def kernel(chapter: Chapter, parameters: Any, output: Path, cwd: Path, tell: object, more: object) -> None:
        notebook = json.loads(chapter.path.read_text())
        for cell in notebook["cells"]:
            cell["metadata"]["papermill"] = {"start_time": "now"}
        output.write_text(json.dumps(notebook))
        for number in range(3):
            write_file(output.parent / chapter.name / f"{number}.csv", f"value\n{parameters['k']}\n" * 100)
        recorded = {"value": results.Recorded(parameters["k"])}
        results.write_chapter(output.parent / "results.json", results.ChapterResults(chapter.name, recorded))

    def executed(folder: Path, value: int) -> None:
        chapters._run = kernel
        chapter, out = Chapter(folder / "notebooks" / "01_a.ipynb"), folder / "runs" / "out"
        execute(chapter, {"k": value}, out, folder, lambda new: write_file(new / "01_a.html", "page"))

    def prepare(folder: Path) -> None:
        mini.write_chapter(Project(folder), "01_a", parameters="k: int = 1  # a number")
        executed(folder, 2)

    def seen(folder: Path) -> Any:
        return content(folder / "runs" / "out")

    # between two renames there is no folder
    return Case(prepare, lambda folder: executed(folder, 3), seen, lambda found, new: not found)


#: each is made of the folder of a tiny model
CASES: dict[str, Callable[[Path], Case]] = {"an executed chapter": an_executed_chapter, "a rank store": a_store}


def count(name: str, base: Path, model: Path, share: float) -> int:
    """Let a case's first step fail and a share of the others, drawn at random; gives how many failures came about.

    After each failure a rerun is to give what a run without it does, and to leave nothing over.
    """
    rng, tried, case = random.Random(name), 0, CASES[name](model)  # noqa: S311
    prepared, work = base / "prepared", base / "work"
    prepared.mkdir(parents=True)
    made = trial(lambda: case.prepare(prepared), prepared)
    assert made.code == DONE, made.said
    _copied(prepared, work)
    before = _seen(case, work)
    done = trial(lambda: case.act(work), work)
    assert done.code == DONE, done.said
    after = _seen(case, work)
    assert after != before, "the case writes nothing"
    for failing in (failing for failing in range(1, done.steps + 1) if failing == 1 or rng.random() < share):
        kind = rng.choice(KINDS)
        situation = f"{name}, {kind} at step {failing} of {done.steps}"
        _copied(prepared, work)
        outcome = trial(lambda: case.act(work), work, failing, kind)
        # a step whose failure costs nothing, as the removal of what is not needed any more, may fail
        assert outcome.code in ((DONE, CLEAN, KILLED) if outcome.hit else (DONE,)), f"{situation}: {outcome.said}"
        tried += outcome.hit
        found = _seen(case, work)
        whole = found in (before, after) or case.on_the_way(found, after)
        assert whole, f"{situation}: neither the old nor the new content"
        for left in work.rglob(".*.tmp"):
            os.utime(left, (0, 0))  # the next run finds it a day later
        last = trial(lambda: case.act(work), work)
        assert last.code == DONE, f"{situation}: the rerun fails: {last.said}"
        assert _seen(case, work) == after, f"{situation}: the rerun gives another content"
        assert not list(work.rglob(".*.tmp")), f"{situation}: something is left over"
    return tried


def _seen(case: Case, work: Path) -> Any:
    """What a reader gets of a copy (looking changes nothing), in a process of its own (Arrow begins threads)."""
    looked = _copied(work, work.with_name("looked"))
    found = trial(lambda: case.seen(looked), looked)
    assert found.code == DONE, found.said
    return found.given


def _copied(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))
