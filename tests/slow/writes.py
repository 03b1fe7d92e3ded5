"""Kills at every step of writing a rank store and a folder.

After each, what can be read is the old content or the new, whole, or an error; and a rerun gives the new content.
"""

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tiny
import torch
from apart import content
from injected import DONE, KILLED, Outcome, trial

from rbp.choices import Settings
from rbp.errors import DataError
from rbp.extract.extraction import extract
from rbp.io import folder_beside, swap_in, write_file
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


def a_folder(model: Path) -> Case:
    """A folder of some files, in place of an older one, as that of an executed chapter."""

    def write(folder: Path, value: int) -> None:
        with folder_beside(folder / "out") as new:
            for number in range(3):
                write_file(new / f"{number}.csv", f"value\n{value}\n" * 100)
            swap_in(new, folder / "out")

    def seen(folder: Path) -> Any:
        return content(folder / "out")

    # between two renames there is no folder
    return Case(lambda folder: write(folder, 2), lambda folder: write(folder, 3), seen, lambda found, new: not found)


#: each is made of the folder of a tiny model
CASES: dict[str, Callable[[Path], Case]] = {"a folder": a_folder, "a rank store": a_store}


def count(name: str, base: Path, model: Path, share: float) -> int:
    """Kill a case's run at its first step and a share of the others, drawn at random; gives how many kills there were.

    After each a rerun is to give what a run without it does, and to leave nothing over.
    """
    rng, case = random.Random(name), CASES[name](model)  # noqa: S311
    prepared, work = base / "prepared", base / "work"
    prepared.mkdir(parents=True)
    _done(lambda: case.prepare(prepared), prepared)
    _copied(prepared, work)
    before = _seen(case, work)
    steps = _done(lambda: case.act(work), work).steps
    after = _seen(case, work)
    assert after != before, "the case writes nothing"
    killed = 0
    for last in (last for last in range(1, steps + 1) if last == 1 or rng.random() < share):
        situation = f"{name}, killed at step {last} of {steps}"
        _copied(prepared, work)
        outcome = trial(lambda: case.act(work), work, last)
        assert outcome.code in (KILLED, DONE), f"{situation}: {outcome.given}"  # it may have ended in fewer steps
        killed += outcome.code == KILLED
        found = _seen(case, work)
        whole = found in (before, after) or case.on_the_way(found, after)
        assert whole, f"{situation}: neither the old nor the new content"
        for left in work.rglob(".*.tmp"):
            os.utime(left, (0, 0))  # the next run finds it a day later
        _done(lambda: case.act(work), work)
        assert _seen(case, work) == after, f"{situation}: the rerun gives another content"
        assert not list(work.rglob(".*.tmp")), f"{situation}: something is left over"
    return killed


def _done(act: Callable[[], object], folder: Path) -> Outcome:
    outcome = trial(act, folder)
    assert outcome.code == DONE, outcome.given
    return outcome


def _seen(case: Case, work: Path) -> Any:
    """What a reader gets of a copy (looking changes nothing), in a process of its own (Arrow begins threads)."""
    looked = _copied(work, work.with_name("looked"))
    return _done(lambda: case.seen(looked), looked).given


def _copied(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))
