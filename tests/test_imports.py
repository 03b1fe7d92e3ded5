"""What imports what: modules that strings name, benchmarks, and commands that must begin at once."""

import ast
import importlib
import importlib.util
import json
import re
import subprocess
import sys

import pytest
from toy_stores import make_store

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


QUESTIONS = [
    ["ranks", "summary", "{stores}", "--k", "1,10"],
    ["ranks", "query", "SELECT count(*) FROM ranks", "--stores", "{stores}"],
    ["compare", "{stores}/1000", "{stores}/1000"],
    ["fit", "--measurements", "published", "--dataset", "wikipedia", "--family", "Pythia", "--k", "1"],
    ["law", "{stores}", "-k", "10", "--out", "{stores}/law.html"],
]
EACH_IN_TURN = """
import json, sys
from rbp.cli import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["rbp", *command]
    try:
        main()
    except SystemExit as end:
        assert not end.code, command
print("imported:", *sys.modules)
"""


def test_questions_on_stores_import_nothing_that_takes_long(tmp_path):
    for size in (1000, 2000, 4000):  # so that a law is fitted
        greater = [0] * (40 + size // 100) + [5] * 20 + [30] * 10
        make_store(tmp_path / str(size), greater, [len(greater)], model=f"toy/{size}", size=size)
    words = [[word.format(stores=tmp_path) for word in question] for question in QUESTIONS]
    command = [sys.executable, "-c", EACH_IN_TURN, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said, imported = done.stdout.split("imported:")
    assert "α" in said
    assert {"torch", "transformers", "sympy", "datasets", "nbformat", "papermill"} & set(imported.split()) == set()
