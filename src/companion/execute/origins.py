"""Trace what each variable of a running notebook depends on: the reader's data, the book's, changed parameters.

Of each statement, the names that it reads are taken from its syntax tree, and the files that it reads from what readers
note (`rbp.provenance`). What it assigns depends on both.
"""

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

YOURS, BOOK = "yours", "the book’s"
_HOOK = "_begin_statement"


class Origins(ast.NodeTransformer):
    """Follows the statements of all cells that run after this one.

    origins: of the parameters, by their names, each a set of YOURS, BOOK, and "name = value" of a changed parameter;
    drain: returns the origins of what was read since its last call.
    """

    def __init__(self, shell: Any, origins: Mapping[str, frozenset[str]], drain: Callable[[], frozenset[str]]) -> None:
        self._of, self._drain = dict(origins), drain
        self._names: tuple[str, ...] = ()
        self._assigned: tuple[str, ...] = ()
        self._read = drain()
        others = [node for node in shell.ast_transformers if not isinstance(node, Origins)]  # of an earlier Page
        shell.ast_transformers[:] = [*others, self]
        self._namespace = shell.user_ns
        self._namespace[_HOOK] = self._begin

    def current(self) -> frozenset[str]:
        """Return what the statement that runs now depends on."""
        self._read |= self._drain()
        return self._read.union(*(self._of.get(name, frozenset()) for name in self._names))

    def _begin(self, names: tuple[str, ...], assigned: tuple[str, ...]) -> None:
        """Record what the last statement has assigned, and what the next one reads and assigns."""
        self._of |= dict.fromkeys(self._assigned, self.current())
        self._names, self._assigned, self._read = names, assigned, frozenset()

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """Announce each statement of a cell before it runs."""
        if _HOOK in self._namespace:  # IPython’s %reset empties it
            node.body = self._announced(node.body, ())
        return ast.fix_missing_locations(node)

    def _announced(self, body: Iterable[ast.stmt], around: tuple[str, ...]) -> list[ast.stmt]:
        """Precede each statement by its announcement; those within a condition or a loop depend on its head too."""
        result: list[ast.stmt] = []
        for statement in body:
            blocks = [
                name for name in ("body", "orelse", "finalbody") if isinstance(statement, ast.If | ast.For | ast.With)
            ]
            inner = {name: getattr(statement, name) for name in blocks if hasattr(statement, name)}
            for name in inner:
                setattr(statement, name, [])
            names, assigned = _names(statement)
            for name, block in inner.items():
                setattr(statement, name, self._announced(block, (*around, *names)))
            call = f"{_HOOK}({(*around, *names)!r}, {assigned!r})"
            announcement = ast.copy_location(ast.parse(call).body[0], statement)
            result += [announcement, statement]
        return result


def _names(statement: ast.stmt) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List the names that a statement reads, and the names that it assigns or changes."""
    nodes = list(ast.walk(statement))
    assigned = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            assigned.append(node.name)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            assigned += [name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)][:1]
    read = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    added = [node.target.id for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)]
    return tuple(dict.fromkeys([*read, *added])), tuple(dict.fromkeys(assigned))
