"""The workflow's steps: tables that take long to make, made once, and read by the chapters that declare them.

``book/steps.toml`` declares them: what makes each, and what that reads. A step's table lies in
``_build/steps/NAME.parquet``. The file ``NAME.json`` beside it says what it was made from: the checksums of the code
that the step imports, of the data that it reads, and of the pins. A table is made again where any of these has changed,
and only then.
"""

import ast
import fcntl
import importlib
import io
import json
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from rbp.core import provenance
from rbp.core.errors import ChapterError, DataError, ParameterError
from rbp.core.files import expanded, lock, sha256, write_file, write_json
from rbp.core.names import nearest
from rbp.core.paths import Project

if TYPE_CHECKING:
    import pandas as pd


class Step(BaseModel, frozen=True, extra="forbid", strict=True):
    """A table that a function of the package makes from files of the project alone.

    ``make`` is "module:function"; the function takes no arguments and gives the same DataFrame whenever it is called.
    ``reads`` are the data files or folders that it reads, relative to the root; ``seconds``, how long it takes, about.
    """

    make: str = Field(pattern=r"^[\w.]+:\w+$")
    reads: list[str] = []
    seconds: int = 0


def find_step(project: Project, name: str) -> Step:
    """The step of this name in ``book/steps.toml``.

    Raises ParameterError with the nearest name, and where the file is malformed.
    """
    path = project.book / "steps.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        declared = TypeAdapter(dict[str, Step]).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = f"book/steps.toml, {'.'.join(map(str, first['loc']))}"
        raise ParameterError(f"this declares no step: {first['msg']}", where, "Give make, and reads.") from None
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"this is not TOML: {error}", "book/steps.toml") from None
    if name not in declared:
        raise ParameterError(f'there is no step "{name}"', "book/steps.toml", nearest(name, declared))
    return declared[name]


def table(name: str, project: Project | None = None) -> "pd.DataFrame":
    """The step's table, made first where it is missing or stale.

    Raises ParameterError for an unknown name, DataError where a file that the step reads is missing, ChapterError
    where it reads what it does not declare.
    """
    import pandas as pd

    project = project or Project()
    provenance.note_step(name)
    with _locked(project, name):
        _make_if_stale(project, name)
        return pd.read_parquet(_files(project, name)[0])


def bring_up_to_date(project: Project, name: str) -> float | None:
    """Make the step's table where it is missing or stale: the seconds that it took, or None if it was fresh.

    Raises what `table` raises.
    """
    with _locked(project, name):
        return _make_if_stale(project, name)


def inputs(project: Project, name: str) -> list[Path]:
    """The files that the step depends on: its code, as far as it is imported, its data, and the pins.

    Raises DataError if one is missing.
    """
    step = find_step(project, name)
    data = [project.root / path for path in step.reads]
    pins = sorted(project.root.glob("requirements*.lock"))
    paths = [*imported(project.root / "src", step.make.split(":")[0]), *data, *pins]
    for path in paths:
        if not path.exists():
            raise DataError("the step reads a file that is not there", f"{name}: {path}", "Mend its `reads`.")
    return expanded(paths)


def imported(source: Path, module: str) -> list[Path]:
    """The files below ``source`` that importing ``module`` may execute, itself included, in a fixed order.

    They are found in the syntax trees: every import statement counts, wherever it stands. A module that is imported
    by a string is not seen. Raises DataError if ``module`` itself is not there.
    """
    if not _existing(source, module):
        raise DataError("the step's module is not there", module)
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _existing(source, name)
        if path is None or path in found:
            continue
        found.add(path)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        # a package is executed before its modules
        waiting += [name.rpartition(".")[0], *named(path.read_bytes(), package)]
    return sorted(found)


def _existing(source: Path, module: str) -> Path | None:
    base = source.joinpath(*module.split("."))
    paths = (base / "__init__.py", base.with_name(f"{base.name}.py"))
    return next((path for path in paths if module and path.is_file()), None)


@cache  # the steps share most of the package
def named(source: str | bytes, package: str) -> tuple[str, ...]:
    """The full names of all that the import statements of a ``package``'s code may mean by a module."""
    found: list[str] = []
    waiting: list[Any] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        # what holds statements: expressions, which are most of a tree, hold no imports
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, block, [])
    return tuple(found)


def _files(project: Project, name: str) -> tuple[Path, Path]:
    """The step's table, and what says what it was made from."""
    return project.steps / f"{name}.parquet", project.steps / f"{name}.json"


@contextmanager
def _locked(project: Project, name: str) -> Iterator[None]:
    """Let one process at a time make the step or read it."""
    find_step(project, name)  # an unknown name leaves no lock behind
    project.steps.mkdir(parents=True, exist_ok=True)
    with (project.steps / f".{name}.lock").open("w") as stream:
        lock(stream, fcntl.LOCK_EX)
        yield


def _made_from(project: Project, name: str) -> dict[str, Any]:
    sums = {path.relative_to(project.root).as_posix(): sha256(path) for path in inputs(project, name)}
    return {"make": find_step(project, name).make, "inputs": sums}


def _make_if_stale(project: Project, name: str) -> float | None:
    step, (target, sidecar) = find_step(project, name), _files(project, name)
    now = _made_from(project, name)  # before it is made: whatever changes meanwhile leaves it stale
    if _is_fresh(target, sidecar, now):
        return None
    start = time.perf_counter()
    content = io.BytesIO()
    _made(name, step).to_parquet(content)
    write_file(target, content.getvalue())
    seconds = time.perf_counter() - start
    write_json(project.times / f"{name}.json", {"seconds": round(seconds, 1)})
    write_json(sidecar, now | {"table": sha256(target)})  # last, since it says that the rest is done
    return seconds


def _is_fresh(target: Path, sidecar: Path, now: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(sidecar.read_bytes()) == now | {"table": sha256(target)})
    except (OSError, ValueError):
        return False


def _made(name: str, step: Step) -> "pd.DataFrame":
    """Call the step's function; what it reads is held against its declaration, and not noted as the chapter's."""
    module, _, function = step.make.partition(":")
    with provenance.recording() as read:
        result: pd.DataFrame = getattr(importlib.import_module(module), function)()
    undeclared = [path for path in read.files if not any(Path(path).is_relative_to(p) for p in step.reads)]
    if undeclared or read.steps:
        names = ", ".join(sorted({*undeclared, *read.steps}))
        remedy = "Add files to its `reads`; a step cannot read another step."
        raise ChapterError(f"the step reads what it does not declare: {names}", name, remedy)
    return result
