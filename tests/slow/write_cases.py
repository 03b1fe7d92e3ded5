"""What is written: rank stores, manifests, results, executed chapters, steps' tables, pages, models."""

import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import made_ladder
import mini
import numpy as np
import pandas as pd
import tiny
import torch

from companion import results, site, steps
from companion import run as chapters
from companion.project import Project
from companion.run import Chapter, execute
from rbp.errors import DataError
from rbp.extract import models as models_module
from rbp.extract.extraction import Settings, extract
from rbp.extract.models import find_model, load_model, load_tokenizer
from rbp.extract.protocol import protocol
from rbp.extract.store import Store, open_store
from rbp.io import write_file

Content = dict[str, bytes]


def content(folder: Path) -> Content:
    """All files below a folder, but locks."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".lock", "lock")))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@dataclass(frozen=True)
class Case:
    """One thing that is written.

    prepare: makes what is there before; act: writes; seen: what a reader gets, which must be that of before or of
    after; on_the_way: what else may be seen, of what is written in several steps.
    """

    name: str
    prepare: Callable[[Path], object]
    act: Callable[[Path], object]
    seen: Callable[[Path], Any]
    on_the_way: Callable[[Any, Any], bool] = lambda found, new: False


def a_store(models: Path, documents: int = 6, begun: int | None = None) -> Case:
    """A rank store: made from nothing, or going on with some packs there."""
    files = find_model(str(models))
    tokenizer, language = load_tokenizer(files), load_model(files, "float32", torch.device("cpu"))

    def prepare(folder: Path) -> None:
        tiny.write_texts(folder / "corpus.jsonl", tiny.texts(documents, longest=30))
        if begun is not None:
            act(folder)
            (store,) = (folder / "out").iterdir()
            for part in sorted((store / "parts").iterdir())[begun:]:
                part.unlink()

    def act(folder: Path) -> None:
        models_module.load_tokenizer, models_module.load_model = lambda files: tokenizer, lambda *which: language
        windows = protocol("windows", length=32, context=16, pack=2)
        extract([files], [str(folder / "corpus.jsonl")], windows, folder / "out", Settings(backend="reference"))

    def seen(folder: Path) -> Any:
        found = list((folder / "out").glob("*/manifest.json"))
        parts = {path.name: path.read_bytes() for path in (folder / "out").glob("*/parts/[!.]*")}
        if not found:
            return {"parts": parts, "tokens": None}
        try:
            return {"parts": parts, "tokens": open_store(found[0].parent).ranks().to_csv()}
        except DataError:
            return {"parts": parts, "tokens": None}

    def on_the_way(found: Any, new: Any) -> bool:
        return found["tokens"] in (None, new["tokens"]) and found["parts"].items() <= new["parts"].items()

    return Case("a rank store" if begun is None else "a rank store, half made", prepare, act, seen, on_the_way)


def a_label(models: Path) -> Case:
    """The manifest of a finished store, which gets another label."""
    made = a_store(models, 3)

    def prepare(folder: Path) -> None:
        made.prepare(folder)
        made.act(folder)

    def act(folder: Path) -> None:
        (store,) = (folder / "out").iterdir()
        with Store(store).lock():
            Store(store).finish({"family": "another"})

    def seen(folder: Path) -> Any:
        (store,) = (folder / "out").iterdir()
        found = open_store(store)
        return found.family, found.ranks().to_csv()

    return Case("a manifest", prepare, act, seen)


def merged_results() -> Case:
    """The merged results of a book, over older ones."""

    def write(folder: Path, count: int) -> None:
        values = {f"key{i}": results.Recorded(i + count) for i in range(count)}
        results.write_book(folder / "_build" / "results.json", {"01_a": values})

    def seen(folder: Path) -> Any:
        return results.read_book(folder / "_build" / "results.json")

    return Case("merged results", lambda folder: write(folder, 30), lambda folder: write(folder, 50), seen)


def _executed(folder: Path, value: int, size: int = 3) -> None:
    """Execute a chapter, with the kernel's part of the work done in its stead."""

    def kernel(chapter: Chapter, parameters: Any, output: Path, cwd: Path, tell: object, more: object) -> None:
        notebook = json.loads(chapter.path.read_text())
        for cell in notebook["cells"]:
            cell["metadata"]["papermill"] = {"start_time": "now"}
        output.write_text(json.dumps(notebook))
        for number in range(size):
            write_file(output.parent / chapter.name / f"{number}.csv", f"value\n{parameters['k']}\n" * 100)
        recorded = {"value": results.Recorded(parameters["k"])}
        results.write_chapter(output.parent / "results.json", results.ChapterResults(chapter.name, recorded))

    chapters._run = kernel
    chapter = Chapter(folder / "notebooks" / "01_a.ipynb")
    execute(chapter, {"k": value}, folder / "runs" / "out", folder, lambda new: write_file(new / "01_a.html", "page"))


def an_executed_chapter(before: bool) -> Case:
    """The folder of an executed chapter, where none is or in place of an older one."""

    def prepare(folder: Path) -> None:
        mini.write_chapter(Project(folder), "01_a", parameters="k: int = 1  # a number")
        if before:
            _executed(folder, 2)

    def seen(folder: Path) -> Any:
        return content(folder / "runs" / "out")

    name = "an executed chapter" + (", over an older one" if before else "")
    return Case(name, prepare, lambda folder: _executed(folder, 3), seen)


def a_step() -> Case:
    """The table of a workflow step, over an older one."""

    def write(folder: Path, count: int) -> None:
        buffer = io.BytesIO()
        pd.DataFrame({"x": np.arange(count)}).to_parquet(buffer)
        steps._content = lambda project, name: buffer.getvalue()
        steps.make_table(Project(folder), "case")

    def seen(folder: Path) -> Any:
        with patch.dict(os.environ, {steps.TABLES: str(Project(folder).steps)}):
            return steps.table("case", Project(folder)).to_csv()

    return Case("a step's table", lambda folder: write(folder, 5), lambda folder: write(folder, 9), seen)


def the_pages() -> Case:
    """The book's pages, over older ones."""

    def build(folder: Path, text: str) -> None:
        project = Project(folder)
        write_file(project.book / "more.md", f"# More\n\n{text}\n")

        def pages(source: Path, config: Path, output: Path, *more: Any, **options: Any) -> Path:
            for path in source.rglob("*.*"):
                write_file(output / "_build" / "html" / path.relative_to(source), path.read_bytes())
            return output / "_build" / "html"

        site.jupyter_book = pages
        site.copy_scripts = lambda where: write_file(where / "script.js", "script")
        site.build_html(project)

    def prepare(folder: Path) -> None:
        project = Project(folder)
        mini.write_book(project)
        for name in ("01_a", "02_b", "03_c"):
            write_file(project.chapters / name / f"{name}.ipynb", (project.notebooks / f"{name}.ipynb").read_bytes())
            write_file(project.chapters / name / name / "data.csv", "value\n1\n")
        build(folder, "old")

    def seen(folder: Path) -> Any:
        found = content(folder / "_build" / "html")
        return {name: data for name, data in found.items() if not name.endswith("made.md")}  # which holds times

    return Case("the pages", prepare, lambda folder: build(folder, "new"), seen)


def a_trained_model(ladder: Path) -> Case:
    """A training from its start: states, then the model. `ladder`: a prepared ladder, see `kills`."""
    from ladder import making, training

    def opened(folder: Path) -> tuple[making.Making, making.Line]:
        made = made_ladder.with_one_budget(ladder / "ladders.toml", folder / "out", 192)  # three steps
        return made, made.choose(["neox"], ["narrow"], [1])[0]

    def prepare(folder: Path) -> None:
        shutil.copytree(ladder / "out", folder / "out")

    def act(folder: Path) -> None:
        with patch.object(training, "EVERY", 0.0):
            making.train(made_ladder.quiet, *opened(folder))

    def seen(folder: Path) -> Any:
        made, line = opened(folder)
        if not made.is_done(line, 192, made.rows(line)):
            return None
        return (made.model(line, 192) / "model.safetensors").read_bytes()

    return Case("a trained model", prepare, act, seen)


#: by name; each is made of the folder of a tiny model and that of a prepared ladder (see `kills`)
CASES: dict[str, Callable[[Path, Path], Case]] = {
    "merged results": lambda model, ladder: merged_results(),
    "an executed chapter": lambda model, ladder: an_executed_chapter(False),
    "an executed chapter, over an older one": lambda model, ladder: an_executed_chapter(True),
    "a step's table": lambda model, ladder: a_step(),
    "the pages": lambda model, ladder: the_pages(),
    "a rank store": lambda model, ladder: a_store(model),
    "a rank store, half made": lambda model, ladder: a_store(model, 8, 2),
    "a manifest": lambda model, ladder: a_label(model),
    "a trained model": lambda model, ladder: a_trained_model(ladder),
}
