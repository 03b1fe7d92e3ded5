"""The import rule, for modules that are named in strings too: import-linter sees import statements only."""

import ast
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
