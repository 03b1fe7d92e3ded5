"""Where a recorded value comes from, and who names it.

`Page` notes for each value the cell and line that record it, and the functions named there (`Recording`). The book's
build keeps these notes in ``_build/where/NAME.json``, apart from the results: lines shift without a value's moving.
Sentences, claims and lines of the report that name a value are looked up in the files as they are now.
"""

import ast
import difflib
import hashlib
import json
import linecache
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, NamedTuple

from companion.execute import prose, results
from companion.execute.prose import SENTENCE_END, VALUE, keys_of
from companion.project import CLAIMS, Project
from rbp.errors import ParameterError
from rbp.io import parse_json

FOLDER = "RBP_WHERE"  # the environment variable that holds the folder of the build's notes


class Recording(NamedTuple):
    """The cell that records a value, by a checksum of its text; the line in it; the functions that make the value."""

    cell: str
    line: int
    functions: list[str]


class Use(NamedTuple):
    """A use of a value: its kind ("sentence", "claim", "report"), file and line, and what stands there."""

    kind: str
    place: str
    text: str


# ── While a chapter runs


def recording_of(frame: FrameType | None, namespace: Mapping[str, Any]) -> Recording | None:
    """Find the notebook's statement that is running, and the functions that make what it records.

    namespace: of the notebook, by which its frame is known. None outside of a notebook.
    """
    while frame is not None and frame.f_globals is not namespace:
        frame = frame.f_back
    if frame is None:
        return None
    source = "".join(linecache.getlines(frame.f_code.co_filename))
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return None
    if not statements:
        return None
    running = next(node for node in reversed(statements) if node.lineno <= frame.f_lineno or node is statements[0])
    named = {node.id for node in ast.walk(running) if isinstance(node, ast.Name)}
    assigning = [node for node in statements if isinstance(node, ast.Assign) and named & _assigned(node)]
    made_by = dict.fromkeys(name for part in (running, *assigning) for name in _functions(part, namespace))
    return Recording(_checksum(source), frame.f_lineno, list(made_by))


def _checksum(cell: str) -> str:
    return hashlib.sha256(cell.rstrip("\n").encode()).hexdigest()[:16]


def _assigned(statement: ast.Assign) -> set[str]:
    return {node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _functions(statement: ast.stmt, namespace: Mapping[str, Any]) -> Iterator[str]:
    """Name the functions of modules that a statement calls: "companion.chapters.holds.fit_summary"."""
    for node in ast.walk(statement):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id=name):
                called = namespace.get(name)
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                called = getattr(namespace.get(module), name, None)
            case _:
                continue
        if isinstance(called, FunctionType):
            yield f"{called.__module__}.{called.__qualname__}"


# ── Afterwards


def find_makers(project: Project, chapter: str, key: str) -> list[str]:
    """Say who makes a value: the files and lines of the functions and of the statement that records it.

    [] where the chapter has not been built, or its code is another by now.
    """
    path = project.where / f"{chapter}.json"
    note = parse_json(path.read_bytes()).get(key) if path.exists() else None
    if note is None:
        return []
    recording = Recording(*note)
    lines = [place for name in recording.functions if (place := _place_of_function(project, name))]
    notebook = project.notebooks / f"{chapter}.ipynb"
    for cell, numbers in source_lines(notebook):
        if _checksum("".join(cell["source"])) == recording.cell:
            lines.append(f"{project.label(notebook)}:{numbers[recording.line - 1]}  records it")
    return lines


def _place_of_function(project: Project, name: str) -> str | None:
    """Return the file and line of a function of the project; None if it is not there any more."""
    module, _, function = name.rpartition(".")
    path = (project.root / "src").joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        return None
    definition = re.search(
        rf"^(?:async )?def {re.escape(function)}\b", text := path.read_text(encoding="utf-8"), re.MULTILINE
    )
    return f"{project.label(path)}:{text.count(chr(10), 0, definition.start()) + 1}  {function}" if definition else None


def source_lines(notebook: Path) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Give each cell of a notebook with the lines of the file on which its own lines stand.

    The file has a line for each, as Jupyter writes it.
    """
    texts = notebook.read_text(encoding="utf-8").splitlines()
    i = 0
    for cell in json.loads(notebook.read_bytes())["cells"]:
        numbers = []
        for line in "".join(cell["source"]).splitlines(keepends=True):
            written = json.dumps(line, ensure_ascii=False)
            i = next((j for j in range(i, len(texts)) if texts[j].strip().rstrip(",") == written), i)
            numbers.append(i + 1)
        yield cell, numbers


def find_uses(project: Project, chapter: str, key: str, recorded: results.Results) -> list[Use]:
    """List the sentences of chapters and pages, the claims and the lines of the report that name a value."""
    listed = []
    for path in sorted(project.notebooks.glob("*.ipynb")):
        for cell, numbers in source_lines(path):
            text = "".join(cell["source"])
            for start in _named(text, path.stem, chapter, key):
                line = numbers[text.count("\n", 0, start)]
                listed.append(_sentence("sentence", f"{project.label(path)}:{line}", text, start, path.stem, recorded))
    for path in [*sorted(project.book.rglob("*.md")), *project.book.glob("*.typ")]:
        kind, text = "report" if path.suffix == ".typ" else "sentence", path.read_text(encoding="utf-8")
        for start in [*_named(text, "", chapter, key), *_shown(text, chapter, key)]:
            line = text.count("\n", 0, start) + 1
            listed.append(_sentence(kind, f"{project.label(path)}:{line}", text, start, "", recorded))
    return [*listed, *_claims(project, f"{chapter}::{key}")]


def _named(text: str, of: str, chapter: str, key: str) -> Iterator[int]:
    """Give the places in a text of a chapter ("" for a page) where the value is named."""
    for place in VALUE.finditer(text):
        if (place["chapter"] or of) == chapter and key in keys_of(place):
            yield place.start()


def _shown(text: str, chapter: str, key: str) -> Iterator[int]:
    """Give the places where a page or the report shows the figure or table whose data have this checksum."""
    name = re.escape(f"{chapter}::{key.removesuffix('.csv')}")
    yield from (
        match.start() for match in re.finditer(rf'"{name}"|<!-- figure {name} -->', text) if key.endswith(".csv")
    )


def _sentence(kind: str, place: str, text: str, start: int, chapter: str, recorded: results.Results) -> Use:
    sentence_ends = [0, *(match.end() for match in SENTENCE_END.finditer(text)), len(text)]
    first, last = max(end for end in sentence_ends if end <= start), min(end for end in sentence_ends if end > start)
    return Use(kind, place, prose.strip_markup(text[first:last], chapter, recorded))


def _claims(project: Project, name: str) -> Iterator[Use]:
    """Give the claims that name a value, CHAPTER::KEY, or with others by CHAPTER::PREFIX.*."""
    path = project.root / CLAIMS.relative_to(Project().root)
    table = ""
    for i, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], 1):
        table = match[1] if (match := re.match(r"\[(\w+)\]$", line)) else table
        if any(results.select([name], number) for number in re.findall(r'"(\w+::[^"]+)"', line)):
            yield Use("claim", f"{project.label(path)}:{i}", table)


def find_values(recorded: results.Results, name: str) -> list[tuple[str, str]]:
    """Find the values of this name, KEY or CHAPTER::KEY, as chapter and key. Raises ParameterError for none."""
    names = {f"{chapter}::{key}": (chapter, key) for chapter, values in recorded.items() for key in values}
    if chosen := [(chapter, key) for full, (chapter, key) in names.items() if name in (key, full)]:
        return chosen
    close = difflib.get_close_matches(name, names, n=3)
    remedy = f"Did you mean {' or '.join(close)}?" if close else "Name it KEY or CHAPTER::KEY."
    raise ParameterError(f'no chapter records "{name}"', None, remedy)
