"""Find the chapters, check what they declare, and execute one: the whole result, or nothing."""

import contextlib
import hashlib
import importlib
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from companion.execute import results
from companion.execute.kernel import MARKER
from companion.execute.parameters import Parameter, declared, parse, unread
from companion.execute.prose import chapter_numbers, first_heading
from companion.project import Project
from rbp import errors
from rbp.errors import ChapterError, ChapterFailed, ParameterError, RbpError
from rbp.io import (
    canonical_json,
    expanded,
    folder_beside,
    label,
    parse_json,
    swap_in,
    temporary_folder,
    write_file,
    write_json,
)
from rbp.io import sha256 as checksum
from rbp.names import nearest

NAME = re.compile(r"[^\W_]\w*")
UPLOADED = re.compile(r"^[0-9a-f]{8}-")  # before the name of a table in runs/live/uploads


class Declaration(BaseModel, frozen=True, strict=True):
    """What a notebook's metadata ``rbp`` declare.

    reads: the data files and folders that the chapter may read, relative to the root. steps: whose tables it reads.
    needs: what a reader's own table of measurements must hold, see `needs.NEEDS`. results_of: the chapters whose
    results it reads; ["*"]: all others. seconds: about how long it takes, where that is long: the longest run first.
    """

    reads: list[str] = []
    steps: list[str] = []
    needs: list[str] = []
    results_of: list[str] = []
    seconds: int = 0


@dataclass(frozen=True)
class Chapter:
    """One chapter of the book: the notebook ``notebooks/NAME.ipynb``."""

    path: Path

    @property
    def name(self) -> str:
        """The chapter's name, such as "emergence"."""
        return self.path.stem

    @cached_property
    def notebook(self) -> dict[str, Any]:
        """The notebook's JSON. Raises ChapterError if it has none."""
        import nbformat  # late: the command line starts without

        try:
            content: dict[str, Any] = parse_json(self.path.read_bytes())
            nbformat.validate(content)
        except (OSError, ValueError, AttributeError, nbformat.ValidationError) as error:
            fault = f"this is not a notebook: {str(error).splitlines()[0]}"
            raise ChapterError(fault, str(self.path), "Save it again with Jupyter.") from None
        return content

    @property
    def title(self) -> str:
        """The first heading, or the name."""
        return first_heading(self.notebook["cells"]) or self.name

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The parameters that the cell tagged ``parameters`` declares, or [].

        Raises ChapterError for two such cells, and for a parameter that no other cell reads.
        """
        code = [cell for cell in self.notebook["cells"] if cell["cell_type"] == "code"]
        cells = [cell for cell in code if "parameters" in cell.get("metadata", {}).get("tags", [])]
        if len(cells) > 1:
            raise ChapterError("two cells are tagged `parameters`", self.name)
        declared_here = declared("".join(cells[0]["source"]), self.name) if cells else []
        if names := unread(declared_here, ("".join(cell["source"]) for cell in code if cell not in cells)):
            fault = f"no cell reads the parameter {names[0]}: another value would change nothing"
            raise ChapterError(fault, self.name, "Use it, or remove it.")
        return declared_here

    @cached_property
    def declaration(self) -> Declaration:
        """What the notebook's metadata declare. Raises ChapterError for what is no declaration."""
        try:
            return Declaration.model_validate(self.notebook["metadata"].get("rbp", {}))
        except ValidationError as error:
            first = error.errors()[0]
            fault = f"the notebook's metadata rbp.{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise ChapterError(fault, self.name) from None

    def parse(self, assignments: Sequence[str]) -> dict[str, Any]:
        """Read ``name=value`` strings: see `parameters.parse`."""
        return parse(self.parameters, assignments, self.name)

    def effective(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return every parameter's value: the given ones, and the defaults of the others."""
        return {parameter.name: parameter.default for parameter in self.parameters} | dict(values)

    def changed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Select the values that differ from the defaults, or name the reader's own data, in the declared order."""
        changeable = [p for p in self.parameters if p.name in values]
        return {p.name: v for p in changeable if (v := values[p.name]) != p.default or p.readers_own(v)}

    def values_in(self, namespace: dict[str, Any]) -> dict[str, Any]:
        """Read the parameters' values from the namespace of a notebook.

        A text is read by the declared type, and changed there: papermill passes `-p ks 1,10` as one. Raises what
        `parse` raises.
        """
        for parameter in self.parameters:
            value, of_list = namespace[parameter.name], parameter.type.startswith("list")
            if parameter.type != "str" and (isinstance(value, str) or of_list is not isinstance(value, list)):
                namespace |= parse([parameter], [f"{parameter.name}={value}"], self.name)
        return {parameter.name: namespace[parameter.name] for parameter in self.parameters}

    def in_words(self, changed: Mapping[str, Any]) -> str:
        """List the changed parameters in words: "measurements = mine.csv; level = 0.8"."""
        return "; ".join(f"{p.name} = {text_of(p, changed[p.name])}" for p in self.parameters if p.name in changed)

    def readers_own(self, values: Mapping[str, Any]) -> list[Path]:
        """List the reader's own files and folders that the ``values`` of parameters name, each once."""
        paths = (path for p in self.parameters if p.name in values for path in p.readers_own(values[p.name]))
        return list(dict.fromkeys(paths))

    def short_hash(self, values: Mapping[str, Any], code: str = "") -> str:
        """Return eight hexadecimal digits that identify a run of the chapter.

        They depend on its effective parameters, the content of the reader's own files, and a checksum of the ``code``.
        """
        files = {str(path): checksum(path) for path in expanded(self.readers_own(values)) if path.is_file()}
        identity = canonical_json([self.name, self.effective(values), files, code])
        return hashlib.sha256(identity.encode()).hexdigest()[:8]


def file_name(path: Path) -> str:
    """Return the name that the reader gave a file: an upload's has a code before it."""
    return UPLOADED.sub("", path.name) if path.parent.name == "uploads" else path.name


def text_of(parameter: Parameter, value: Any) -> str:
    """Print a parameter's value: the reader's files by their names alone."""
    names = {str(path): file_name(path) for path in parameter.readers_own(value)}
    if names:
        return ", ".join(names.get(source, source) for source in parameter.sources(value))
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def copied_names(chapter: Chapter, values: Mapping[str, Any]) -> dict[Path, str]:
    """Name the copies of the reader's own files in a run's folder: path -> "inputs/mine.csv"."""
    names: dict[Path, str] = {}
    for path in filter(Path.is_file, chapter.readers_own(values)):
        name = f"inputs/{file_name(path)}"
        names[path] = f"inputs/{len(names)}-{file_name(path)}" if name in names.values() else name
    return names


def with_names(chapter: Chapter, values: Mapping[str, Any], names: Mapping[Path, str]) -> dict[str, Any]:
    """Replace the names of the reader's own files in the values of parameters."""
    texts = {str(path): name for path, name in names.items()}
    by_name = {parameter.name: parameter for parameter in chapter.parameters}
    sources = {name: by_name[name].sources(value) for name, value in values.items()}
    named = {name: ",".join(texts.get(source, source) for source in sources[name]) for name in values}
    return {name: named[name] or value for name, value in values.items()}


def command(chapter: Chapter, values: Mapping[str, Any]) -> str:
    """Write the command that executes a chapter with these values of its parameters."""
    texts = {name: ",".join(map(str, v)) if isinstance(v, list) else str(v) for name, v in values.items()}
    options = [part for name, text in texts.items() for part in ("-p", f"{name}={text}")]
    return shlex.join(["rbp", "run", chapter.name, *options])


def all_chapters(project: Project) -> list[Chapter]:
    """List the book's chapters in the contents' order, unlisted ones last. Raises ChapterError if there is none."""
    listed = list(chapter_numbers(project))
    names = [path.stem for path in sorted(project.notebooks.glob("*.ipynb")) if NAME.fullmatch(path.stem)]
    if lacking := [name for name in listed if name not in names]:
        raise ChapterError(f"the contents list {lacking[0]}, and there is no such notebook", "book/_toc.yml")
    if not names:
        raise ChapterError("there are no chapters", str(project.notebooks), "They are named NAME.ipynb.")
    ordered = [*listed, *(name for name in names if name not in listed)]
    return [Chapter(project.notebooks / f"{name}.ipynb") for name in ordered]


def chapter_names(project: Project) -> list[str]:
    """List the chapters' names, in the book's order."""
    return [chapter.name for chapter in all_chapters(project)]


def step_names(project: Project) -> list[str]:
    """List the steps that the chapters declare, in the chapters' order."""
    return list(dict.fromkeys(step for chapter in all_chapters(project) for step in chapter.declaration.steps))


def times(project: Project) -> dict[str, float]:
    """Return the seconds that each step or chapter took last, by name, as far as they were run."""
    names = [*step_names(project), *chapter_names(project)]
    files = {name: project.times / f"{name}.json" for name in names}
    return {name: json.loads(path.read_text())["seconds"] for name, path in files.items() if path.exists()}


def find(project: Project, name: str) -> Chapter:
    """Find a chapter by its name, or its number in the contents. Raises ParameterError with the nearest name."""
    chapters = {chapter.name: chapter for chapter in all_chapters(project)}
    numbers = {number: named for named, number in chapter_numbers(project).items()}
    chosen = numbers.get(name, name.removesuffix(".ipynb"))
    if chosen not in chapters:
        raise ParameterError(f'there is no chapter "{name}"', None, nearest(name, chapters))
    return chapters[chosen]


def _foreign(out: Path, chapter: Chapter) -> list[str]:
    """List what lies in ``out`` that no execution of the chapter has put there."""
    expected = {chapter.name, f"{chapter.name}.ipynb", f"{chapter.name}.html", "results.json", "inputs", "run.json"}
    return sorted(path.name for path in out.iterdir() if path.name not in expected) if out.is_dir() else []


def execute(
    chapter: Chapter,
    parameters: Mapping[str, Any],
    out: Path,
    cwd: Path,
    finish: Callable[[Path], object] | None = None,
    on_cell: Callable[[int, int], object] | None = None,
    environment: Mapping[str, str] | None = None,
) -> float:
    """Execute ``chapter`` with checked ``parameters`` into the folder ``out``; returns the seconds it took.

    ``out`` gets ``NAME.ipynb`` (executed; its metadata ``rbp.changed`` has the parameters that differ from the
    defaults), ``NAME/`` (figures and tables) and ``results.json``; an earlier execution is replaced whole. The kernel
    starts in ``cwd``. ``finish`` may add to the folder before it is renamed into place. ``on_cell`` is called when a
    cell begins, with its number (from 1) and how many there are. ``environment`` adds to the kernel's variables.

    Raises the RbpError that a cell raised, ChapterError for a chapter that does not keep to its declaration, and
    ChapterFailed for another failing cell or a dead kernel, with the partial notebook kept as ``OUT.failed.ipynb``.
    """
    out = out.resolve()
    if out.exists() and (not out.is_dir() or (foreign := _foreign(out, chapter))):
        fault = f"the folder holds other things: {', '.join(foreign[:3])}" if out.is_dir() else "this is a file"
        raise ParameterError(fault, str(out), "Name a folder that is new, or that an earlier run has made.")
    failed = out.with_name(f"{out.name}.failed.ipynb")
    start = time.perf_counter()
    with folder_beside(out) as folder:
        partial = folder / chapter.path.name
        copies = _copy_inputs(chapter, parameters, folder)
        try:
            # what a run hands on is what it reads; a comma in the folder's name would part the names of several files
            values = parameters if "," in str(folder) else with_names(chapter, parameters, copies)
            _run(chapter, values, partial, cwd.resolve(), on_cell, environment or {})
        except ChapterFailed as failure:
            if (marker := folder / MARKER).exists():
                raise carried_error(marker, {copy: str(path) for path, copy in copies.items()}) from None
            if partial.exists():
                with contextlib.suppress(OSError):  # a full disk, which is what has failed the chapter, keeps nothing
                    write_file(failed, partial.read_bytes())
                    failure.partial_notebook = failed
            raise
        normalize(chapter, partial, parameters)
        _write_relative(folder, [*folder.glob("*.*"), *(folder / chapter.name).glob("*.*")] if copies else [])
        _check_outputs(chapter, parameters, folder)
        if finish:
            finish(folder)
        swap_in(folder, out)
    failed.unlink(missing_ok=True)
    return time.perf_counter() - start


def _copy_inputs(chapter: Chapter, parameters: Mapping[str, Any], folder: Path) -> dict[Path, str]:
    """Copy the reader's own files into the folder of a run, with run.json, from which others can repeat it.

    Returns the path of each copy by its original's.
    """
    if not chapter.changed(parameters):
        return {}
    copies = copied_names(chapter, parameters)
    for path, copy in copies.items():
        (folder / copy).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, folder / copy)
    values = with_names(chapter, chapter.changed(parameters), copies)
    record = {"chapter": chapter.name, "command": command(chapter, values), "parameters": values}
    record |= {"where": "Run the command in the folder of this file."} if copies else {}
    write_json(folder / "run.json", record | {"sha256": {copy: checksum(folder / copy) for copy in copies.values()}})
    return {path: str(folder / copy) for path, copy in copies.items()}


def _write_relative(folder: Path, files: Iterable[Path]) -> None:
    """Name the copies of the reader's files in the texts of a run as from its folder, wherever that lies."""
    names = {f"{name}/" for name in (str(folder), label(folder), Project().label(folder))}
    names |= {json.dumps(name)[1:-1] for name in names}  # as JSON writes what is not ASCII
    for path in files:
        if path.suffix in (".ipynb", ".json", ".csv"):
            text = path.read_text(encoding="utf-8")
            shortened = text
            for name in sorted(names, key=len, reverse=True):
                shortened = shortened.replace(f"{name}inputs/", "inputs/")
            if shortened != text:
                write_file(path, shortened)


def carried_error(marker: Path, originals: Mapping[str, str]) -> RbpError:
    """Read the RbpError that a cell raised, from the file that the kernel wrote; it names the reader's own files."""
    content = json.loads(marker.read_text(encoding="utf-8"))
    kind = getattr(errors, content.pop("type"), RbpError)
    for copy, original in originals.items():
        for name in (copy, label(Path(copy))):
            content = {key: text and text.replace(name, original) for key, text in content.items()}
    return kind(**content)


def _run(
    chapter: Chapter,
    parameters: Mapping[str, Any],
    output: Path,
    cwd: Path,
    on_cell: Callable[[int, int], object] | None,
    more: Mapping[str, str],
) -> None:
    """Execute with papermill, in this process, into the file ``output``. Raises ChapterFailed."""
    papermill = importlib.import_module("papermill")
    importlib.import_module("companion.execute.engine")
    # papermill would fill braces in a path as in a format string.
    source, target = (str(path).replace("{", "{{").replace("}", "}}") for path in (chapter.path, output))
    # The system's folder, since not every file system can keep a kernel's key from others; the kernel removes it.
    with temporary_folder("rbp-kernel") as start:
        environment = {"RBP_OUT": str(output.parent), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        # Neither the user's start-up files nor a history that two kernels share.
        environment |= {"IPYTHONDIR": str(start), "RBP_START": str(start)}
        try:
            papermill.execute_notebook(
                source,
                target,
                dict(parameters),
                engine_name="rbp",
                kernel_name="python3",
                progress_bar=False,
                request_save_on_cell_execute=False,  # twice a cell, which takes a tenth of all that papermill does
                partial=str(output),
                start_timeout=300,  # seconds: on a busy machine a kernel takes longer than papermill's 60
                kernel_environment=os.environ | environment | dict(more),
                kernel_cwd=str(cwd),
                connection_file=str(start / "connection.json"),
                on_cell=on_cell,
            )
        except papermill.PapermillExecutionError as error:
            cell = _cell_number(chapter, output)
            raise ChapterFailed(chapter.name, cell, f"{error.ename}: {error.evalue}".strip(": ")) from None
        except Exception as error:
            # nbclient's DeadKernelError, a kernel that does not start: whatever papermill meets.
            text = str(error).strip() or type(error).__name__
            raise ChapterFailed(chapter.name, _cell_number(chapter, output), text) from None


def _cell_number(chapter: Chapter, output: Path) -> int | None:
    """Return the number of the last cell of the chapter to start, counted from 1; None if none did."""
    try:
        cells = json.loads(output.read_bytes())["cells"]
    except (OSError, ValueError):  # none began, or the disk is full
        return None
    started = [cell["id"] for cell in cells if cell["metadata"].get("papermill", {}).get("start_time")]
    ids = [cell.get("id") for cell in chapter.notebook["cells"]]
    return max((ids.index(cell) + 1 for cell in started if cell in ids), default=None)


def normalize(chapter: Chapter, path: Path, parameters: Mapping[str, Any]) -> None:
    """Remove from an executed notebook what differs from one execution to the next: times and random ids.

    The metadata ``rbp.changed`` has the ``parameters`` that differ from the defaults: `prose.page_of` tells them.
    """
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["metadata"].pop("papermill", None)
    notebook["metadata"].get("language_info", {}).pop("version", None)
    own_ids = {cell.get("id") for cell in chapter.notebook["cells"]}
    for number, cell in enumerate(notebook["cells"]):
        if cell.get("id") not in own_ids:  # the injected cell, and every cell of a notebook older than cell ids
            cell["id"] = f"cell-{number}"
        for key in ("papermill", "execution"):
            cell["metadata"].pop(key, None)
    if changed := chapter.changed(parameters):
        names = copied_names(chapter, parameters)
        notebook["metadata"].setdefault("rbp", {})["changed"] = with_names(chapter, changed, names)
        for cell in notebook["cells"]:
            if "injected-parameters" in cell["metadata"].get("tags", []):  # so that the notebook finds its copies
                assigned = with_names(chapter, parameters, names)
                cell["source"] = "".join(f"{name} = {value!r}\n" for name, value in assigned.items())
    write_file(path, canonical_json(notebook, indent=1) + "\n")


def _check_outputs(chapter: Chapter, parameters: Mapping[str, Any], folder: Path) -> None:
    """Raise ChapterError if the chapter did not close its page, or read files that it does not declare."""
    path = folder / "results.json"
    if not path.exists():
        raise ChapterError("the chapter wrote no results", chapter.name, "Its last cell must call page.close().")
    written = results.read_chapter(path)
    if written.chapter != chapter.name:
        remedy = f'Write page = Page("{chapter.name}").'
        raise ChapterError(f'the chapter calls itself "{written.chapter}"', chapter.name, remedy)
    by_default = chapter.effective(parameters) == chapter.effective({})  # other parameters may name other files
    of_project = [Path(path) for path in written.reads if not Path(path).is_absolute()]
    read_not_declared = (
        ("files", "reads", {str(p) for p in of_project if not any(map(p.is_relative_to, chapter.declaration.reads))}),
        ("steps", "steps", set(written.steps) - set(chapter.declaration.steps)),
    )
    for kind, key, undeclared in read_not_declared:
        if by_default and undeclared:
            remedy = f"Add them to rbp.{key} in the notebook's metadata."
            raise ChapterError(f"it reads undeclared {kind}: {', '.join(sorted(undeclared))}", chapter.name, remedy)
