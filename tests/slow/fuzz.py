"""Whatever is read may be anything: no input ends in anything but a result or an RbpError.

Valid inputs are damaged at random (bytes flipped, cut, doubled; cells replaced), and others are made up. The normal
tests draw a few hundred, the slow set ten thousand and more.
"""

import csv
import io
import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pandas as pd
from damage import WORDS, Target, altered, damaged, in_file, tolerated, write_toml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mini import write_chapter
from toy_stores import make_store

from companion import results
from companion.build import canonical_overrides
from companion.evidence import published
from companion.parameters import declared, parse
from companion.project import DATA, Project
from companion.run import Chapter
from ladder import recipe
from rbp.errors import RbpError
from rbp.extract.corpora import open_corpus
from rbp.extract.store import Store, open_store
from rbp.io import canonical_json
from rbp.measurements import open_source
from rbp.study.config import read_study

seeds = st.integers(0, 2**32)

CORPUS = "".join(json.dumps({"text": f"text {i}", "id": i}) + "\n" for i in range(5)).encode()
MINE = "dataset,model,family,size,metric,k,value,tokens,hits,source\n" + "".join(
    f"d,m{i},F,{10**i},neg_log_rbp,1,{-0.1 * i + 2},,,\nd,m{i},F,{10**i},cross_entropy,,{3 - 0.2 * i},,,x\n"
    for i in range(4, 9)
)


def cells(folder: Path, seed: int) -> None:
    """A measurement file, CSV or Parquet, with some cells replaced."""
    rng = random.Random(seed)  # noqa: S311
    rows = list(csv.reader(io.StringIO(MINE)))
    for _ in range(rng.randint(1, 3)):
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice(WORDS)
    if rng.random() < 0.6:
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        path = folder / "cells.csv"
        path.write_text(text.getvalue(), encoding="utf-8", errors="replace", newline="")
    else:
        odd = [None, True, -1, 2**70, 1.5, float("nan"), float("inf"), b"x", "x", [1], pd.Timestamp(0), {"a": 1}]
        columns = list(map(list, zip(*rows[1:], strict=True)))
        column = rng.randrange(len(columns))
        columns[column] = [rng.choice(odd)] * len(columns[column])
        path = folder / "cells.parquet"
        names = [f"{name}{number}" if rows[0].count(name) > 1 else name for number, name in enumerate(rows[0])]
        try:
            pd.DataFrame(dict(zip(names, columns, strict=True))).to_parquet(path)
        except Exception:  # what pandas cannot write, nobody reads
            return
    tolerated(lambda: open_source(path).table)


def sources(folder: Path, seed: int) -> None:
    """Names of sources that are none."""
    rng = random.Random(seed)  # noqa: S311
    name = "".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4)))
    if name.strip(", ") not in ("", "published"):
        tolerated(lambda: open_source(name).table)
    tolerated(lambda: open_corpus(name.replace("wikipedia", "w").replace("humaneval", "h")))


def a_published_file(folder: Path, seed: int) -> None:
    """One of the published files, damaged, among the others."""
    rng = random.Random(seed)  # noqa: S311
    there = folder / "published"
    if not there.exists():
        shutil.copytree(DATA / "published", there)
    small = [p for p in sorted((DATA / "published").glob("*.csv")) if p.stat().st_size < 20_000]
    path = rng.choice(small)
    (there / path.name).write_bytes(damaged(path.read_bytes(), seed))
    try:
        tolerated(lambda: getattr(published, path.stem)(there))
    finally:
        shutil.copy(path, there / path.name)


def manifests(folder: Path, seed: int) -> None:
    """The manifest of a store: damaged, or another without its seal."""
    store = _store(folder)
    path, rng = store / "manifest.json", random.Random(seed)  # noqa: S311
    before = path.read_bytes()
    if rng.random() < 0.5:
        path.write_bytes(damaged(before, seed))
    else:
        other = altered(json.loads(before), seed)
        try:
            path.write_text(canonical_json(other))
        except ValueError:  # NaN is no JSON of ours; others write it
            path.write_text(json.dumps(other))
    try:
        tolerated(lambda: open_source(store).windows)
        tolerated(lambda: open_store(store).ranks())
        tolerated(lambda: Store(store).parts())
    finally:
        path.write_bytes(before)


def parts(folder: Path, seed: int) -> None:
    """A part of a store, damaged: it is not read."""
    store = _store(folder)
    (path,) = (store / "parts").iterdir()
    before = path.read_bytes()
    path.write_bytes(damaged(before, seed))
    try:
        tolerated(lambda: open_store(store).ranks())
        whole, rest = Store(store).parts()
        assert path.read_bytes() == before or (not whole and rest == [path])
    finally:
        path.write_bytes(before)


def _store(folder: Path) -> Path:
    store = folder / "toy-store"
    if not store.exists():
        make_store(store, [0, 3, 2, 9, 0, 1] * 5, [10, 20])
    return store


def a_recipe(folder: Path, seed: int) -> None:
    """ladder.toml, damaged, or with other values."""
    write_toml(recipe.CONFIGURATION.read_text(), folder / "ladder.toml", seed)
    tolerated(lambda: recipe.read_recipe(folder / "ladder.toml"))


#: with every key that a study may have
STUDY = """models = ["gpt2", { name = "a/b", revision = "main", family = "F" }]
families = ["Pythia"]
corpora = ["wikipedia", { name = "mine.jsonl", fields = ["text"] }]
tokens = 4000
dtype = "float32"
vocabulary = 300
shards = 2
threads = 1
device = "cpu"
output = "out"

[protocol]
name = "windows"
length = 128
context = 64
documents = 10
pack = 4
"""


def a_study(folder: Path, seed: int) -> None:
    """A study's file, damaged, or with other values, or of words that have broken readers."""
    rng, path = random.Random(seed), folder / "study.toml"  # noqa: S311
    (folder / "mine.jsonl").write_bytes(CORPUS)
    if rng.random() < 0.2:
        key = rng.choice([line.split(" =")[0] for line in STUDY.splitlines() if " = " in line])
        words = [json.dumps(rng.choice(WORDS)) for _ in range(rng.randint(1, 3))]
        path.write_text(f"{key} = {rng.choice(words)}\nmodels = [{words[0]}]\ncorpora = [{', '.join(words)}]\n")
    else:
        write_toml(STUDY, path, seed)
    with suppress(RbpError):
        assert len(read_study(path, folder).cells) > 0


PARAMETERS = """k: int = 1  # a number
level: float = 0.5  # a level
name: str = "a"  # a word
log: bool = True  # whether
ks: list[int] = [1]  # numbers
words: list[str] = ["a"]  # words
mode: Literal["a", "b"] = "a"  # which
"""


def given_parameters(folder: Path, seed: int) -> None:
    """Values of parameters on the command line."""
    rng = random.Random(seed)  # noqa: S311
    known = declared(PARAMETERS, "01_a")
    names = ["k", "level", "name", "log", "ks", "words", "mode", "kk", "", " k "]
    given_ = [f"{rng.choice(names)}={rng.choice(WORDS)}{rng.choice(WORDS)}" for _ in range(rng.randint(1, 3))]

    def read() -> None:
        values = parse(known, given_, "01_a")
        canonical_json(values).encode()

    tolerated(read)


def declared_parameters(folder: Path, seed: int) -> None:
    """The cell that declares parameters."""
    text = damaged(PARAMETERS.encode(), seed).decode(errors="replace")
    tolerated(lambda: declared(text, "01_a"))


def the_book_s_parameters(folder: Path, seed: int) -> None:
    """book/parameters.toml."""
    project = Project(folder / "project")
    if not project.notebooks.exists():
        for name in ("01_a", "02_b"):
            write_chapter(project, name, parameters=PARAMETERS, imports=True)
        project.book.mkdir()
    text = '[01_a]\nk = 2\nwords = ["x", "y"]\n\n[02_b]\nname = "x"\nlevel = 0.9\n'
    (project.book / "parameters.toml").write_bytes(damaged(text.encode(), seed))
    tolerated(lambda: canonical_overrides(project, "01_a"))


def a_notebook(folder: Path, seed: int) -> None:
    """A chapter's notebook, with entries of other kinds."""
    cell = {"cell_type": "code", "id": "p", "metadata": {"tags": ["parameters"]}, "source": ["k: int = 1  # a number"]}
    title = {"cell_type": "markdown", "id": "t", "metadata": {}, "source": "# Title"}
    notebook = {"cells": [title, cell], "metadata": {"rbp": {"reads": ["a"], "steps": []}}, "nbformat": 4}
    path = folder / "01_a.ipynb"
    path.write_text(json.dumps(altered(notebook, seed)))

    def read() -> None:
        chapter = Chapter(path)
        _ = chapter.title, chapter.parameters, chapter.reads, chapter.steps, chapter.results_of

    tolerated(read)


VALUE = {"value": 0.5, "unit": "", "tolerance": 1e-9}
RESULTS = {"01_a": {"alpha": VALUE, "word": {**VALUE, "value": "x", "tolerance": None}}}


def merged_results(folder: Path, seed: int) -> None:
    """Recorded values."""
    path = folder / "results.json"
    path.write_text(json.dumps(altered(RESULTS, seed)))
    tolerated(lambda: results.compare(results.read_book(path), {}))
    one = {"chapter": "01_a", "values": RESULTS["01_a"], "reads": ["a"], "steps": []}
    path.write_text(json.dumps(altered(one, seed)))
    tolerated(lambda: results.read_chapter(path))


TARGETS: dict[str, Target] = {
    "measurements, bytes": in_file("mine.csv", MINE.encode(), lambda path: open_source(path).table),
    "measurements, cells": cells,
    "names of sources": sources,
    "published files": a_published_file,
    "manifests": manifests,
    "parts": parts,
    "ladder.toml": a_recipe,
    "study files": a_study,
    "parameters given": given_parameters,
    "parameters declared": declared_parameters,
    "the book's parameters": the_book_s_parameters,
    "notebooks": a_notebook,
    "results": merged_results,
    "corpora": in_file("mine.jsonl", CORPUS, lambda path: open_corpus(str(path))),
}


def fuzz(name: str, folder: Path, examples: int) -> int:
    """Draw so many examples for a target; gives how many were tried. Raises what an example ends in."""
    tried = 0

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(seeds)
    def one(seed: int) -> None:
        nonlocal tried
        tried += 1
        TARGETS[name](folder, seed)

    one()
    return tried
