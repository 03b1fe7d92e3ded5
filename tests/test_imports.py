"""The import rules, for modules that are named in strings too: import-linter sees import statements only."""

import ast
import fnmatch
import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import grimp
import pytest

from rbp.core.paths import ROOT

LAYERS, _ = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


def strings(tree: ast.AST) -> Iterator[str]:
    """The strings of a module, less what follows "-m" in a list: a program that is started is not imported."""
    children = list(ast.iter_child_nodes(tree))
    for before, node in zip([None, *children], children, strict=False):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if not (isinstance(before, ast.Constant) and before.value == "-m"):
                yield node.value
        else:
            yield from strings(node)


def with_strings(package: str, folder: Path) -> grimp.ImportGraph:
    """The import graph of a package below `folder`, where a string that names one of its modules is an import.

    It may name something in the module ("a.b:f", "a.b.f"), or be the beginning of such a name (f"a.b.{name}").
    """
    graph = grimp.build_graph(package, cache_dir=None)
    for importer in graph.modules:
        base = folder.joinpath(*importer.split("."))
        path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        for text in strings(ast.parse(path.read_bytes())):
            names = text.replace(":", ".").strip(".").split(".")
            if names[0] == package and all(map(str.isidentifier, names)):
                known = (".".join(names[:depth]) for depth in range(len(names), 1, -1))
                imported = next((name for name in known if name in graph.modules), importer)
                if imported != importer:
                    graph.add_import(importer=importer, imported=imported)
    return graph


def upwards(graph: grimp.ImportGraph, package: str, layers: list[str]) -> list[str]:
    """The imports from a layer to one above it."""
    found = graph.find_illegal_dependencies_for_layers(
        layers=[grimp.Layer(*re.split(r"\s*:\s*", layer), independent=False) for layer in layers], containers={package}
    )
    return sorted(" -> ".join([*route.heads, *route.tails]) for each in found for route in each.routes)


def circles(graph: grimp.ImportGraph) -> list[tuple[str, str]]:
    """An import of each circle among the modules of a package."""
    packages = [module for module in graph.modules if graph.find_children(module)]
    return sorted(each for package in packages for each in graph.nominate_cycle_breakers(package))


def test_no_string_names_a_module_above_or_closes_a_circle() -> None:
    graph = with_strings("rbp", ROOT / "src")
    for each in LAYERS["ignore_imports"]:
        importers, imported = each.split(" -> ")
        for one, other in product(matched(graph, importers), matched(graph, imported)):
            graph.remove_import(importer=one, imported=other)
    assert upwards(graph, "rbp", LAYERS["layers"]) == []
    # the rooms of the packages to come are not yet apart
    assert [(one, other) for one, other in circles(graph) if one.split(".")[:2] == other.split(".")[:2]] == []


def matched(graph: grimp.ImportGraph, pattern: str) -> list[str]:
    """The modules that a pattern of import-linter names."""
    return fnmatch.filter(graph.modules, pattern)


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ('import_module("house.attic")', ["house.cellar.wine -> house.attic"]),
        ('BROUGHT_BY = {"a": "house.attic.box"}', ["house.cellar.wine -> house.attic.box"]),
        ('MAKE = "house.attic.box:thing"', ["house.cellar.wine -> house.attic.box"]),
        ('import_module("house.attic.box.thing")', ["house.cellar.wine -> house.attic.box"]),
        ('import_module(f"house.attic.{name}")', ["house.cellar.wine -> house.attic"]),
        ('run([python, "-m", "house.attic"])', []),
        ('print("house.attic is above")', []),
        ('load("house.css")', []),
        ('import_module("house.cellar")', []),
    ],
)
def test_a_string_that_names_a_module_above_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, seen: list[str]
) -> None:
    files = {"": "", "attic/": "import house.cellar", "attic/box.py": "", "cellar/": "", "cellar/wine.py": code}
    for name, text in files.items():
        path = tmp_path / "house" / (name if name.endswith(".py") else f"{name}__init__.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "house", raising=False)
    graph = with_strings("house", tmp_path)
    assert upwards(graph, "house", ["attic", "cellar"]) == seen
    assert bool(circles(graph)) == bool(seen)
