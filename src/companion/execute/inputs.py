"""The files that a chapter, a step and the pages are made from, among them the modules that they import."""

import ast
import hashlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import grimp

from companion.project import Project
from rbp import registry
from rbp.errors import RbpError
from rbp.io import canonical_json, expanded, sha256


@cache
def import_graph(source: Path) -> grimp.ImportGraph:
    """Build the graph of imports among the packages in the folder ``source``."""
    packages = sorted(path.parent.name for path in source.glob("*/__init__.py"))
    if not packages:
        return grimp.ImportGraph()
    sys.path.insert(0, str(source))  # grimp looks for packages as an import does
    try:
        return grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    finally:
        sys.path.remove(str(source))


def imported_files(project: Project, names: Iterable[str]) -> list[Path]:
    """Find the project's files that importing the modules ``names`` may read: Python files, and TOML files beside them.

    Names of other packages are passed over. Modules that register themselves are imported by name, which no graph
    shows: they count wherever the registry is imported.
    """
    source = project.root / "src"
    graph = import_graph(source)
    waiting, closure = set(names) & graph.modules, set[str]()
    while waiting:
        name = waiting.pop()
        if name in closure:
            continue
        closure.add(name)
        waiting |= graph.find_modules_directly_imported_by(name)
        if parent := name.rpartition(".")[0]:  # a package is executed before its modules
            waiting.add(parent)
        if name == registry.__name__:
            waiting |= set(registry.modules()) & graph.modules
    bases = [source.joinpath(*name.split(".")) for name in sorted(closure)]
    files = [base / "__init__.py" if base.is_dir() else base.with_suffix(".py") for base in bases]
    tables = sorted({table for file in files for table in file.parent.glob("*.toml")})
    return [*files, *tables]


def named_modules(code: str) -> set[str]:
    """Return the full names of all that ``code`` imports, as far as they may be modules; none if it is no Python."""
    names: set[str] = set()
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def code_of_notebook(project: Project, notebook: Mapping[str, Any]) -> list[Path]:
    """Find the project's files that the code cells of a notebook import."""
    cells = ("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    return imported_files(project, {name for cell in cells for name in named_modules(cell)})


def code_checksum(notebook: Mapping[str, Any]) -> str:
    """Return a checksum of what of a notebook is executed: its code cells, and which of them has the parameters."""
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    tagged = [("".join(cell["source"]), "parameters" in cell.get("metadata", {}).get("tags", [])) for cell in code]
    return hashlib.sha256(canonical_json(tagged).encode()).hexdigest()


def pins(project: Project) -> list[Path]:
    """List the files that pin the versions of packages, but for those that only check the code."""
    return sorted({*project.root.glob("requirements*.lock")} - {project.root / "requirements-checks.lock"})


def checksums(project: Project, paths: Collection[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file, and of each file in each folder, by its path relative to the root."""
    files = (path for path in expanded(paths) if path.is_file())
    return {_relative(project, path): _checksum(path, path.stat().st_mtime_ns) for path in files}


@cache
def _checksum(path: Path, _written: int) -> str:
    return sha256(path)


def _relative(project: Project, path: Path) -> str:
    return str(path.relative_to(project.root) if path.is_relative_to(project.root) else path)


def relative_paths(project: Project, paths: Iterable[Path]) -> list[str]:
    """Return the files, and the files in each folder, relative to the root, each once."""
    return list(dict.fromkeys(_relative(project, path) for path in expanded(paths)))


def digest(project: Project, paths: Collection[Path]) -> str:
    """Return one checksum over `checksums`."""
    return hashlib.sha256(canonical_json(checksums(project, paths)).encode()).hexdigest()


def list_changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """List the paths whose checksums differ, or that are on one side only."""
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


@contextmanager
def unchanged(look: Callable[[], dict[str, str]]) -> Iterator[dict[str, str]]:
    """Give the checksums of a job's inputs, which ``look`` returns, and see that they are the same when it has ended.

    Raises RbpError where one is not: what the job made would be taken as made from the new ones.
    """
    before = look()
    yield before
    if changed := list_changes(before, look()):
        raise RbpError("an input was changed while it was in use", changed[0], "Run `rbp book` again.")
