"""Whatever is read may be anything: no input ends in anything but a result or an RbpError.

Valid inputs are damaged at random (bytes flipped, cut, doubled; cells replaced), and others are made up. The normal
tests draw a few hundred, the slow set ten thousand and more.
"""

import csv
import io
import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mini import write_chapter
from toy_stores import make_store

from rbp import measurements, published, results
from rbp.book import canonical_overrides
from rbp.chapters import Chapter
from rbp.errors import RbpError
from rbp.extraction.corpora import open_corpus
from rbp.extraction.manifest import sealed
from rbp.extraction.reader import open_store
from rbp.extraction.store import Store
from rbp.files import canonical_json
from rbp.ladder import recipe
from rbp.parameters import declared, parse
from rbp.paths import DATA, Project

#: texts that have broken readers: numbers at the edges, other alphabets, code, names of files, NUL and half characters
WORDS = [
    *("", " ", "0", "-0", "-1", "1e400", "1e-400", "nan", "NaN", "inf", "-Infinity", "9" * 400, "1_000", "0x1", "1.0"),
    *(
        "None",
        "null",
        "true",
        "é",
        "ß",
        "漢字",
        "١٢",
        "½",
        "\u2028",
        "\ufeff",
        "a\0b",
        "\t",
        "\n",
        "\r\n",
        '"',
        '""',
        "'",
    ),
    *(",", ";", "=", "[", "]", "{", "}", "#", "%", "$HOME", "`id`", "../x", "/", ".", "~", "[" * 3000, "{" * 3000),
    *("__import__('os')", "wikipedia", "Pythia", "neg_log_rbp", "cross_entropy", "a" * 5000, "published", "\\"),
]
seeds = st.integers(0, 2**32)


def damaged(data: bytes, seed: int) -> bytes:
    """The data with one to four damages."""
    rng = random.Random(seed)  # noqa: S311
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        length = rng.choice((1, 2, 8, 100))
        how = rng.randrange(6)
        if how == 0 and changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        elif how == 1:
            del changed[at : at + length]
        elif how == 2:
            changed[at:at] = bytes(rng.randrange(256) for _ in range(length))
        elif how == 3:
            changed[at : at + length] = bytes(length)
        elif how == 4:
            changed[at:at] = rng.choice(WORDS).encode()
        else:
            changed[at:at] = changed[max(0, at - length) : at]
    return bytes(changed)


def altered(value: Any, seed: int) -> Any:
    """A JSON value with one to three entries replaced, removed or added, at any depth."""
    rng = random.Random(seed)  # noqa: S311
    odd: list[Any] = [
        None,
        True,
        -1,
        0,
        1.5,
        float("nan"),
        float("inf"),
        10**400,
        "",
        "x",
        [],
        {},
        [[]],
        {"a": 1},
        "9" * 50,
    ]

    def once(node: Any) -> Any:
        if isinstance(node, dict) and node and rng.random() < 0.9:
            name = rng.choice(sorted(node))
            if rng.random() < 0.15:
                return {k: v for k, v in node.items() if k != name}
            if rng.random() < 0.1:
                return {**node, rng.choice(WORDS): rng.choice(odd)}
            return {**node, name: once(node[name])}
        if isinstance(node, list) and node and rng.random() < 0.8:
            at = rng.randrange(len(node))
            return [*node[:at], once(node[at]), *node[at + 1 :]]
        return rng.choice(odd)

    for _ in range(rng.randint(1, 3)):
        value = once(value)
    return value


def tolerated(read: Callable[[], object]) -> None:
    """Read; an RbpError is an answer."""
    with suppress(RbpError):
        read()


Target = Callable[[Path, int], None]


def in_file(name: str, data: bytes, read: Callable[[Path], object]) -> Target:
    """A file with damaged data."""

    def once(folder: Path, seed: int) -> None:
        path = folder / name
        path.write_bytes(damaged(data, seed))
        tolerated(lambda: read(path))

    return once


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
    tolerated(lambda: measurements.load(path))


def sources(folder: Path, seed: int) -> None:
    """Names of sources that are none."""
    rng = random.Random(seed)  # noqa: S311
    name = "".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4)))
    if name.strip(", ") not in ("", "published"):
        tolerated(lambda: measurements.load(name))
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
    """The manifest of a store: damaged, or another that is sealed as ours are."""
    store = _store(folder)
    path, rng = store / "manifest.json", random.Random(seed)  # noqa: S311
    before = path.read_bytes()
    if rng.random() < 0.5:
        path.write_bytes(damaged(before, seed))
    else:
        other = altered(json.loads(before), seed)
        try:
            if isinstance(other, dict) and rng.random() < 0.7:
                other = sealed(other)
            path.write_text(canonical_json(other))
        except ValueError:  # NaN is no JSON of ours; others write it
            path.write_text(json.dumps(other))
    try:
        tolerated(lambda: measurements.load(store).windows)
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
    text = recipe.CONFIGURATION.read_text()
    rng, path = random.Random(seed), folder / "ladder.toml"  # noqa: S311
    if rng.random() < 0.5:
        path.write_bytes(damaged(text.encode(), seed))
    else:
        lines = text.splitlines()
        assigned = [i for i, line in enumerate(lines) if "=" in line and not line.startswith("#")]
        for at in rng.sample(assigned, rng.randint(1, 3)):
            odd = (
                "-1",
                "0",
                "1.5",
                "nan",
                "inf",
                "''",
                "[]",
                "{}",
                "true",
                "[1]",
                "9" * 30,
                "1979-05-27",
                '"x"',
                "[" * 2000,
            )
            lines[at] = f"{lines[at].split('=')[0]}= {rng.choice(odd)}"
        path.write_text("\n".join(lines))
    tolerated(lambda: recipe.read(path))


PARAMETERS = (
    'k: int = 1  # a number\nlevel: float = 0.5  # a level\nname: str = "a"  # a word\nlog: bool = True  # whether\n'
)
PARAMETERS += (
    'ks: list[int] = [1]  # numbers\nwords: list[str] = ["a"]  # words\nmode: Literal["a", "b"] = "a"  # which\n'
)


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


RESULTS = {
    "01_a": {
        "alpha": {"value": 0.5, "unit": "", "tolerance": 1e-9},
        "word": {"value": "x", "unit": "", "tolerance": None},
    }
}


def merged_results(folder: Path, seed: int) -> None:
    """Recorded values."""
    path = folder / "results.json"
    path.write_text(json.dumps(altered(RESULTS, seed)))
    tolerated(lambda: results.compare(results.read_book(path), {}))
    one = {"chapter": "01_a", "values": RESULTS["01_a"], "reads": ["a"], "steps": []}
    path.write_text(json.dumps(altered(one, seed)))
    tolerated(lambda: results.read_chapter(path))


CORPUS = "".join(json.dumps({"text": f"text {i}", "id": i}) + "\n" for i in range(5)).encode()

TARGETS: dict[str, Target] = {
    "measurements, bytes": in_file("mine.csv", MINE.encode(), measurements.load),
    "measurements, cells": cells,
    "names of sources": sources,
    "published files": a_published_file,
    "manifests": manifests,
    "parts": parts,
    "ladder.toml": a_recipe,
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
