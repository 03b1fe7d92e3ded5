"""The import rule, for modules that are named in strings too: import-linter sees import statements only."""

import ast
import importlib
import importlib.util
import re

import pytest

from companion.project import ROOT

ABOVE = {"rbp": ("ladder", "companion"), "ladder": ("companion",)}


@pytest.mark.parametrize("package", sorted(ABOVE))
def test_no_string_names_a_module_of_a_package_above(package):
    """A docstring may; a string that is an import's name, such as "ladder.training:train", may not."""
    name = re.compile(rf"({'|'.join(ABOVE[package])})(\.\w+)+(:\w+)?")
    for path in (ROOT / "src" / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not name.fullmatch(node.value), f"{path}, line {node.lineno}: {node.value}"


@pytest.mark.parametrize("path", sorted((ROOT / "bench").glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_names_what_is_there(path):
    """Types are checked in src alone, and a benchmark is run by hand: what it imports of the packages must exist."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in (*ABOVE, "companion"):
            module = importlib.import_module(node.module)
            for name in node.names:
                assert hasattr(module, name.name) or importlib.util.find_spec(f"{node.module}.{name.name}"), name.name
