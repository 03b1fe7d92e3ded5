"""The workflow's steps: tables that take long to make, made once, and read by the chapters that declare them.

A function under the decorator `step` makes each. A step's table lies in ``_build/steps/NAME.parquet``. The file
``NAME.json`` beside it says what it was made from: the checksums of the code that the step imports, of the data that it
reads, and of the pins. A table is made again where any of these has changed, and only then.
"""

import ast
import fcntl
import importlib
import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from rbp.core import provenance, registry
from rbp.core.errors import ChapterError, DataError, ParameterError
from rbp.core.files import expanded, files_below, lock, sha256, write_file, write_json
from rbp.core.names import nearest
from rbp.core.paths import Project

if TYPE_CHECKING:
    import pandas as pd


class MadeOnce:
    """A function of a step: called for what the step is of, it reads the step's table; otherwise it runs."""

    def __init__(self, name: str, function: "Callable[..., pd.DataFrame]", of: Callable[[], Any] | None) -> None:
        self._name, self._function, self._of = name, function, of
        update_wrapper(self, function)

    def __call__(self, *source: Any) -> "pd.DataFrame":
        """The table; raises what `table` raises, and what the function does."""
        return table(self._name) if self.has(*source) else self._function(*source)

    def has(self, *source: Any) -> bool:
        """Whether the step's table is of this source."""
        return self._of is None or source[0].is_exactly(*self._of().shipped)

    def make(self) -> "pd.DataFrame":
        """The step's table, made anew."""
        return self._function(*([self._of()] if self._of else []))


def step(
    name: str, *, reads: Sequence[str], seconds: int = 0, of: Callable[[], Any] | None = None
) -> "Callable[[Callable[..., pd.DataFrame]], MadeOnce]":
    """Make a module's function a step of this name, without arguments or with one source.

    reads: the data files or folders that it reads, relative to the root; seconds: how long it takes, about, since what
    takes long starts first. These are read from the code without running it: write them out. of: opens the source whose
    table is kept (`rbp.evidence.Source`).
    """
    return lambda function: MadeOnce(name, function, of)


class Step(BaseModel, frozen=True, extra="forbid", strict=True):
    """A step as its decorator declares it: where its function is, and the arguments of `step`."""

    module: str
    function: str
    name: str
    reads: list[str]
    seconds: int = 0


def find_step(project: Project, name: str) -> Step:
    """The step of this name in the project's code, below ``src``.

    Raises ParameterError with the nearest name, and for a declaration that cannot be read, or stands there twice.
    """
    source, found = project.root / "src", dict[str, Step]()
    for path in files_below(source):
        if path.suffix == ".py" and b"@step(" in (code := path.read_bytes()):
            for each in declared(code, ".".join(path.relative_to(source).with_suffix("").parts)):
                if other := found.get(each.name):
                    raise ParameterError(f'two steps are called "{each.name}"', f"{other.module}, {each.module}")
                found[each.name] = each
    if name not in found:
        raise ParameterError(f'there is no step "{name}"', "the project's code", nearest(name, found))
    return found[name]


@cache
def declared(code: bytes, module: str) -> tuple[Step, ...]:
    """The steps of a module, by the decorators of its functions. Raises ParameterError for one not written out."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ParameterError(f"this is no Python: {error}", module) from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return tuple(
        _declared(call, module, function.name)
        for function in functions
        for call in function.decorator_list
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "step"
    )


def _declared(call: ast.Call, module: str, function: str) -> Step:
    try:
        (name,) = map(ast.literal_eval, call.args)
        given = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords if each.arg != "of"}
        return Step.model_validate({"module": module, "function": function, "name": name} | given)
    except (ValueError, TypeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": "no plain values"}
        what = f"this declares no step: {' '.join(map(str, (*first['loc'], first['msg'])))}"
        remedy = "Write its name, reads and seconds out: they are read, not run."
        raise ParameterError(what, f"{module}, line {call.lineno}", remedy) from None


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
    paths = [*imported(project.root / "src", step.module), *data, *pins]
    for path in paths:
        if not path.exists():
            raise DataError("the step reads a file that is not there", f"{name}: {path}", "Mend its `reads`.")
    return expanded(paths)


def imported(source: Path, module: str) -> list[Path]:
    """The files below ``source`` that importing ``module`` may execute, itself included, in a fixed order.

    They are found in the syntax trees: every import statement counts, wherever it stands. A module that is imported
    by a string is not seen, but for the sources, corpora and records that are registered: what imports the registry
    may execute these. Raises DataError if ``module`` itself is not there.
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
        if name == registry.__name__:
            waiting += registry.modules()
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
        unread = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for block in ("orelse",) if unread else ("body", "orelse", "finalbody", "handlers", "cases"):
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
    return {"inputs": sums}


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
    with provenance.recording() as read:
        result: pd.DataFrame = getattr(importlib.import_module(step.module), step.function).make()
    files = map(Project().label, read.files)
    undeclared = [path for path in files if not any(Path(path).is_relative_to(p) for p in step.reads)]
    if undeclared or read.steps:
        names = ", ".join(sorted({*undeclared, *read.steps}))
        remedy = "Add files to its `reads`; a step cannot read another step."
        raise ChapterError(f"the step reads what it does not declare: {names}", name, remedy)
    return result
