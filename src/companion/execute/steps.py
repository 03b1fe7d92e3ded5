"""The workflow's steps: slow tables, computed once in a build, and read by the chapters that declare them.

A function under the decorator `step` makes each. In the book's build, a job of the Snakefile writes
``_build/steps/NAME.parquet``, and Snakemake knows when it is stale. Everywhere else a step is computed.
"""

import ast
import importlib
import io
import os
from collections.abc import Callable, Sequence
from functools import cache, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from companion.execute.inputs import imported_files, pins
from companion.project import Project
from rbp import provenance
from rbp.errors import ChapterError, DataError, ParameterError
from rbp.io import files_below, write_file
from rbp.names import nearest

if TYPE_CHECKING:
    import pandas as pd

TABLES = "RBP_STEPS"  # the environment variable that holds the folder of the build's tables


class StepFunction:
    """The function of a step: for the step's own source it reads the step's table; otherwise it computes."""

    def __init__(self, name: str, function: "Callable[..., pd.DataFrame]", of: Callable[[], Any] | None) -> None:
        self._name, self._function, self._of = name, function, of
        update_wrapper(self, function)

    def __call__(self, *source: Any) -> "pd.DataFrame":
        """Return the table. Raises what `read_table` and the function raise."""
        return read_table(self._name) if self.has(*source) else self._function(*source)

    def has(self, *source: Any) -> bool:
        """Return whether the step's table is made from this source."""
        return self._of is None or source[0].is_only(*self._of().shipped)

    def make(self) -> "pd.DataFrame":
        """Compute the step's table anew."""
        return self._function(*([self._of()] if self._of else []))


def step(
    name: str, *, reads: Sequence[str], seconds: int = 0, of: Callable[[], Any] | None = None
) -> "Callable[[Callable[..., pd.DataFrame]], StepFunction]":
    """Make a module's function a step of this name, without arguments or with one source.

    reads: the data files or folders that it reads, relative to the root; seconds: how long it takes, about, since what
    takes long starts first. These are read from the code without running it: write them out. of: opens the source whose
    table is kept (`rbp.measurements.Source`).
    """
    return lambda function: StepFunction(name, function, of)


class Step(BaseModel, frozen=True, extra="forbid", strict=True):
    """A step, as its decorator declares it: the module and name of its function, and the arguments of `step`."""

    module: str
    function: str
    name: str
    reads: list[str]
    seconds: int = 0


def find_step(project: Project, name: str) -> Step:
    """Find the step of this name in the project's code, below ``src``.

    Raises ParameterError with the nearest name, and for a declaration that cannot be read, or is repeated.
    """
    source, steps = project.root / "src", dict[str, Step]()
    for path in (path for path in files_below(source) if path.suffix == ".py"):
        for declared in _declared_in(path, source, path.stat().st_mtime_ns):
            if earlier := steps.get(declared.name):
                raise ParameterError(f'two steps are called "{declared.name}"', f"{earlier.module}, {declared.module}")
            steps[declared.name] = declared
    if name not in steps:
        raise ParameterError(f'there is no step "{name}"', "the project's code", nearest(name, steps))
    return steps[name]


@cache
def _declared_in(path: Path, source: Path, _written: int) -> tuple[Step, ...]:
    """List the steps of a module, by the decorators of its functions. Raises ParameterError for one not written out."""
    code, module = path.read_bytes(), ".".join(path.relative_to(source).with_suffix("").parts)
    if b"@step(" not in code:
        return ()
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ParameterError(f"this is not Python: {error}", module) from None
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
        literal = [keyword for keyword in call.keywords if keyword.arg != "of"]
        arguments = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in literal}
        return Step.model_validate({"module": module, "function": function, "name": name} | arguments)
    except (ValueError, TypeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": "no plain values"}
        fault = f"this declares no step: {' '.join(map(str, (*first['loc'], first['msg'])))}"
        remedy = "Write its name, reads and seconds out: they are read, not run."
        raise ParameterError(fault, f"{module}, line {call.lineno}", remedy) from None


def read_table(name: str, project: Project | None = None) -> "pd.DataFrame":
    """Return the step's table: as its job has written it in the book's build, elsewhere computed.

    Raises ParameterError for an unknown name, DataError where the table or a file that the step reads is missing or
    damaged, ChapterError where it reads what it does not declare.
    """
    import pandas as pd

    project = project or Project()
    provenance.note_step(name)
    if folder := os.environ.get(TABLES):
        path = Path(folder) / f"{name}.parquet"
        try:
            return pd.read_parquet(path)
        except (OSError, ValueError):  # pyarrow's errors are of these kinds
            raise DataError("the step's table cannot be read", str(path), "Remove it, and build the book.") from None
    return pd.read_parquet(io.BytesIO(_content(project, name)))


def make_table(project: Project, name: str) -> None:
    """Compute the step's table into ``_build/steps/NAME.parquet``. Raises what `read_table` raises."""
    write_file(project.steps / f"{name}.parquet", _content(project, name))


def list_inputs(project: Project, name: str) -> list[Path]:
    """List the files that the step depends on: its data and the pins; `list_modules` has its modules.

    Raises DataError if one is missing.
    """
    paths = [*(project.root / path for path in find_step(project, name).reads), *pins(project)]
    for path in paths:
        if not path.exists():
            raise DataError("the step reads a file that is not there", f"{name}: {path}", "Correct its `reads`.")
    return paths


def list_modules(project: Project, name: str) -> list[Path]:
    """List the files that importing the step's module reads."""
    return imported_files(project, [find_step(project, name).module])


@cache
def _content(project: Project, name: str) -> bytes:
    content = io.BytesIO()
    list_inputs(project, name)
    _compute(name, find_step(project, name)).to_parquet(content)
    return content.getvalue()


def _compute(name: str, step: Step) -> "pd.DataFrame":
    """Call the step's function; files that it reads must be declared, and do not count as the chapter's."""
    with provenance.recording() as read:
        result: pd.DataFrame = getattr(importlib.import_module(step.module), step.function).make()
    files = map(Project().label, read.files)
    undeclared = [path for path in files if not any(Path(path).is_relative_to(p) for p in step.reads)]
    if undeclared or read.steps:
        names = ", ".join(sorted({*undeclared, *read.steps}))
        remedy = "Add files to its `reads`; a step cannot read another step."
        raise ChapterError(f"the step reads what it does not declare: {names}", name, remedy)
    return result
