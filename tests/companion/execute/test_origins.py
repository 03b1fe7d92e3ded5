"""What each variable of a notebook depends on, statement by statement."""

import ast
import textwrap
from types import SimpleNamespace

from companion.execute.origins import BOOK, YOURS, Origins

CELLS = """
mine = measure(measurements)
both = [row for row in mine] + shipped()
theirs = shipped()
show("mine", mine, level)
show("both", both)
---
show("theirs", theirs)
for k in ks:
    part = [k]
    show("loop", part)
if mine:
    show("condition", 1)
theirs += mine
show("added", theirs)
def later():
    return both
show("function", later())
table = {}
table["x"] = level
show("item", table)
show("read here", shipped())
show("not read here", 1)
"""


def test_origins_follow_names_and_files_through_the_cells():
    read, shown = set[str](), {}

    def drain():
        found = frozenset(read)
        read.clear()
        return found

    shell = SimpleNamespace(ast_transformers=[], user_ns={})
    given = {"measurements": frozenset([YOURS]), "level": frozenset(["level = 0.8"]), "ks": frozenset(["ks = 1"])}
    origins = Origins(shell, given, drain)
    assert shell.ast_transformers == [origins]
    shell.user_ns |= {"measurements": "mine.csv", "level": 0.8, "ks": [1], "measure": lambda _: [1]}
    shell.user_ns["shipped"] = lambda: [read.add(BOOK), 2]
    shell.user_ns["show"] = lambda name, *_: shown.update({name: origins.current()})
    for cell in CELLS.split("---"):
        tree = origins.visit(ast.parse(textwrap.dedent(cell)))
        exec(compile(tree, "cell", "exec"), shell.user_ns)  # noqa: S102 (a cell, as IPython runs it)
    assert shown == {
        "mine": {YOURS, "level = 0.8"},
        "both": {YOURS, BOOK},
        "theirs": {BOOK},
        "loop": {"ks = 1"},
        "condition": {YOURS},
        "added": {YOURS, BOOK},
        "function": {YOURS, BOOK},
        "item": {"level = 0.8"},
        "read here": {BOOK},
        "not read here": set(),
    }
