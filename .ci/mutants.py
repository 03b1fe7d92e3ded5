"""Change the code at places drawn by a seed, one at a time, and see whether the tests of `make check` notice.

    python .ci/mutants.py --seed 47 [--number 600] [--at COMMIT] [--folder _build/mutants]

How to read what it writes, and which survivors are known: `tests/README.md`. Needs `pip install -e 'src[mutants]'`.

The changes are cosmic-ray's, made in a worktree of the commit. Its own runner starts pytest for each; here a process
forks that has imported the libraries, and nothing of ours. Only tests that reach the changed place run, the quickest
files first, until one fails. A run that was stopped goes on where it was; uncommitted changes are not seen. Exits 1 if
a change went unnoticed that `tests/README.md` does not list.
"""

import argparse
import ast
import contextlib
import importlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import coverage
import pytest
from cosmic_ray import ast as parsed
from cosmic_ray import plugins
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("src/rbp/laws", "src/rbp/kernel", "src/rbp/measurements")
PYTEST = ["-q", "-p", "no:cacheprovider", "-m", "not slow and not builds", "--hypothesis-seed=0"]
#: run by an interpreter in a process of its own, where no lines are seen, by a test that `make check` leaves out
TRITON, ITS_TEST = "src/rbp/kernel/triton_kernel.py", "tests/rbp/kernel/test_triton.py"
MEMORY = 12 << 30  # bytes that a fork may take


def git(*words: str) -> str:
    """Run git in the repository; return what it prints."""
    ran = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True)  # noqa: S603, S607
    return ran.stdout.strip()


def seconds() -> float:
    """Return the processor time of this process and of the processes that it waited for."""
    return sum(os.times()[:4])


def forked(work: Callable[[], Any], limit: float) -> Any:
    """Run `work` in a fork without output; return its result, None if the fork died or took over `limit` seconds."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            os.setsid()
            signal.alarm(int(limit))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            os.write(write, json.dumps(work()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read) as answer:
        output = answer.read()
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started
    return json.loads(output) if status == 0 else None


def import_libraries(files: list[str]) -> None:
    """Import here what the tests import, but for this repository's own modules."""

    def imported() -> list[str]:
        if pytest.main([*PYTEST, "--collect-only", *files]):
            return []
        here = str(Path.cwd())
        origins = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        return [name for name, file in origins.items() if file and not file.startswith(here)]

    if not (names := forked(imported, 600)):
        sys.exit("The tests cannot be read, although nothing is changed.")
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # noqa: S112  # a module that only its package can import
            continue


# --- Which tests reach which lines


class Reached:
    """A plugin: the lines of each test, and of each fixture that tests share, as contexts of a coverage file."""

    def __init__(self, measured: Any) -> None:
        self.measured = measured
        self.contexts: list[str] = []
        self.tests: dict[str, dict[str, Any]] = {}

    def within(self, context: str) -> Iterator[Any]:
        """Count what runs until this generator goes on as part of a context."""
        self.contexts.append(context)
        self.measured.switch_context(context)
        try:
            return (yield)
        finally:
            self.contexts.pop()
            self.measured.switch_context(self.contexts[-1] if self.contexts else "")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[Any]:
        """Record a test, with what its unshared fixtures do."""
        for name, module in list(sys.modules.items()):
            for each in list(vars(module).values()) if name.partition(".")[0] == "rbp" else ():
                if callable(forget := getattr(each, "cache_clear", None)):
                    forget()  # or only the first test would reach what is kept
        definitions = [each[-1] for each in item._fixtureinfo.name2fixturedefs.values() if each]
        self.tests[item.nodeid] = {
            "passed": True,
            "shared": [_context(e) for e in definitions if e.scope != "function"],
        }
        start = seconds()
        yield from self.within(item.nodeid)
        self.tests[item.nodeid]["seconds"] = round(seconds() - start, 3)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[Any]:
        """Record a fixture; one that tests share runs once, and all of them reach its lines."""
        if fixturedef.scope == "function":
            return (yield)
        return (yield from self.within(_context(fixturedef)))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record whether a test passed."""
        self.tests[report.nodeid]["passed"] &= report.outcome == "passed"


def _context(fixture: Any) -> str:
    return f"fixture {fixture.baseid} {fixture.argname}"


def measure(file: str, folder: Path) -> None:
    """Run a file's tests; what they reach comes into `folder`, unless it is there."""
    record, data = folder / f"{file.replace('/', '-')}.json", folder / f"{file.replace('/', '-')}.coverage"
    if record.exists():
        return

    def work() -> Any:
        measured = coverage.Coverage(str(data), source=["src/rbp"], config_file=False)
        reached = Reached(measured)
        data.unlink(missing_ok=True)
        with measured.collect():
            status = pytest.main([*PYTEST, *(["-m", "not slow"] if file == ITS_TEST else ()), file], plugins=[reached])
        measured.save()
        return None if status not in (0, 1, 5) else reached.tests

    tests = forked(work, 3600)
    if tests is None:
        sys.exit(f"{file} cannot be run.")
    record.write_text(json.dumps(tests))


class Suite:
    """The tests of the tree in which we are, and which of them reach a line."""

    def __init__(self, folder: Path) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for record in sorted(folder.glob("*.json")):
            tests = json.loads(record.read_text())  # one that fails, or is skipped, without a change tells nothing
            self.tests |= {name: test for name, test in tests.items() if test["passed"]}
            with_shared = defaultdict(set)
            for name, test in tests.items():
                for context in (name, *test["shared"]):
                    with_shared[context].add(name)
            data = coverage.CoverageData(str(record.with_suffix(".coverage")))
            data.read()
            for file in data.measured_files():
                reached = self.lines[os.path.relpath(file)]
                for line, contexts in data.contexts_by_lineno(file).items():
                    reached[line].update(*(with_shared[each] for each in contexts))
        self.sources = {str(path): path.read_text() for path in sorted(Path("src/rbp").rglob("*.py"))}
        self.texts = {str(path): path.read_text() for path in sorted(Path("tests").rglob("test_*.py"))}

    def reaching(self, file: str, line: int) -> list[tuple[str, list[str]]]:
        """List the files whose tests run a line, each with these tests; the quickest files first."""
        names = self._reaching(file, line, set()) & set(self.tests)
        names |= {name for name in self.tests if file == TRITON and name.startswith(ITS_TEST)}
        by_file = defaultdict(list)
        for name in names:
            by_file[name.partition("::")[0]].append(name)
        return sorted(by_file.items(), key=lambda item: sum(map(self.seconds, item[1])))

    def seconds(self, test: str) -> float:
        """Return the processor time that a test took."""
        return float(self.tests[test]["seconds"])

    def _reaching(self, file: str, line: int, seen: set[tuple[str, int]]) -> set[str]:
        around = [s for s in _statements(self.sources[file]) if s[0] <= line <= s[1]]
        if not around:
            return set()
        if any(each[3] for each in around[:-1]):  # within a function: who runs the statement
            first, last = around[-1][0], around[-1][2]
            if reached := set().union(*(self.lines[file][each] for each in range(first, last + 1))):
                return reached  # else it may be compiled, which runs no lines: who names the function
            if file == TRITON:
                return set()  # what its own test runs, nobody sees
        # Run when the module is imported: who runs what is in it, or what names it, and test files that name it.
        first, last, _, _, names = around[-1] if around[-1][3] else around[0]  # a method's head, or all of its class
        if (file, first) in seen or not names:
            return set()
        seen.add((file, first))
        reached = set().union(*(self.lines[file][each] for each in range(first, last + 1)))
        if around[-1][3] and reached:  # a function's head: who runs it
            return reached
        module = re.compile(rf"\b{Path(file.removesuffix('/__init__.py')).stem}\b")
        for other, text in self.sources.items():
            if other == file or module.search(text):
                lines = set().union(*(_words(text).get(name, ()) for name in names))
                for number in lines - set(range(first, last + 1) if other == file else ()):
                    reached |= self._reaching(other, number, seen)
        naming = {test for test, text in self.texts.items() if module.search(text) and _words(text).keys() & set(names)}
        return reached | {name for name in self.tests if name.partition("::")[0] in naming}


@cache
def _words(source: str) -> dict[str, set[int]]:
    """Map each name, and each word of a text that is used, to the lines in which it stands."""
    lines = defaultdict(set)
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        text = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "value", None)
        if isinstance(node, ast.alias):
            text = node.name
        if isinstance(text, str) and id(node) not in docstrings:
            for word in re.findall(r"\w+", text):
                lines[word].add(node.lineno)
    return dict(lines)


@cache
def _statements(source: str) -> list[tuple[int, int, int, bool, list[str]]]:
    """List statements, outer ones first: first, last line, last of its head, whether a function, names it binds."""
    statements = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            body = node.body if isinstance(getattr(node, "body", None), list) else None
            line = getattr(node, "lineno", None) or node.pattern.lineno
            first = min([line, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            last = getattr(node, "end_lineno", None) or body[-1].end_lineno
            head = max(first, body[0].lineno - 1) if body else last
            bound = getattr(node, "targets", None) or [getattr(node, "target", node)]  # not what a comprehension binds
            inner = [each for one in bound for each in ast.walk(one)]
            stored = [n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
            names = stored if body is None else [n for n in [getattr(node, "name", None)] if n]
            statements.append((first, last, head, isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef), names))
    return sorted(statements, key=lambda each: (each[0], -each[1]))


# --- Mutants


def places() -> dict[tuple[str, int, int], list[tuple[str, int]]]:
    """Map each place (file, line, column) that can be changed to cosmic-ray's operators and their occurrences there.

    Types are left out: nothing reads them.
    """
    operators = {name: plugins.get_operator(name) for name in plugins.operator_names()}
    changes = defaultdict(list)
    for path in sorted(each for room in ROOMS for each in Path(room).rglob("*.py")):
        source = path.read_text()
        types = [
            (each.lineno, each.col_offset, each.end_lineno, each.end_col_offset)
            for node in ast.walk(ast.parse(source))
            for each in (getattr(node, "annotation", None), getattr(node, "returns", None))
            if each is not None
        ]
        nodes = list(parsed.ast_nodes(parsed.get_ast(source)))
        for name, operator in operators.items():
            if operator.arguments():
                continue
            starts = [start for node in nodes for start, _ in operator().mutation_positions(node)]
            for occurrence, (line, column) in enumerate(starts):
                if not any((a, b) <= (line, column) <= (c, d) for a, b, c, d in types):
                    changes[str(path), line, column].append((name, occurrence))
    return dict(changes)


def draw(seed: int, number: int) -> list[tuple[str, int, list[tuple[str, int]]]]:
    """Sample so many places (file, line), each with its changes (operator, occurrence) in random order.

    Passed over: `strict=True` and `frozen=True`, which guard against errors of ours that no input brings about; and the
    star after which parameters have names.
    """
    chance, every = random.Random(seed), places()  # noqa: S311
    sampled = []
    for file, line, column in chance.sample(sorted(every), min(number, len(every))):
        changes = chance.sample(every[file, line, column], k=len(every[file, line, column]))
        text = Path(file).read_text().splitlines()[line - 1]
        if not (text[:column].endswith(("strict=", "frozen=")) or text[column:].startswith("*,")):
            sampled.append((file, line, changes))
    return sampled


def mutate(source: str, changes: list[tuple[str, int]]) -> tuple[str, str] | None:
    """Return the first of the changes that gives Python, and its operator; None where none does."""
    for operator, occurrence in changes:
        with contextlib.suppress(SyntaxError, AttributeError), warnings.catch_warnings():  # of several exceptions
            warnings.simplefilter("ignore")  # "is" with a number
            changed = mutate_code(source, plugins.get_operator(operator)(), occurrence)
            compile(changed, "", "exec")
            return changed, operator.partition("/")[2]
    return None


def judge(suite: Suite, file: str, line: int, changes: list[tuple[str, int]]) -> dict[str, Any]:
    """Make the change, run the tests that reach it, and take it back."""
    path, source = Path(file), suite.sources[file]
    if (mutated := mutate(source, changes)) is None:
        return {"file": file, "line": line, "operator": None}
    changed, operator = mutated
    differing = [b.strip() for a, b in zip(source.splitlines(), changed.splitlines(), strict=False) if a != b]
    mutant: dict[str, Any] = {"file": file, "line": line, "operator": operator}
    mutant |= {"was": source.splitlines()[line - 1].strip(), "is": differing[0] if differing else ""}
    tests = suite.reaching(file, line)
    mutant["tests"] = sum(len(names) for _, names in tests)
    took = sum(suite.seconds(name) for _, names in tests for name in names)

    def work() -> str | None:
        sys.dont_write_bytecode = True
        for test_file, names in tests:
            limit = seconds() + 10 + 5 * sum(map(suite.seconds, names))
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), resource.RLIM_INFINITY))
            plugin = _Chosen(set(names))
            if pytest.main([*PYTEST, "-x", "-m", "not slow", test_file], plugins=[plugin]) not in (0, 5):
                return plugin.failed or f"{test_file} cannot be read"
        return None

    start = seconds()
    try:
        path.write_text(changed)
        os.utime(path, (time.time() + 10, time.time() + 10))  # nothing compiled before may pass for it
        outcome = forked(lambda: [work()], 600 + 20 * took)
    finally:
        path.write_text(source)
    by = "the end of its process" if outcome is None else outcome[0]
    return mutant | {"by": by, "seconds": round(seconds() - start, 1)}


class _Chosen:
    """A plugin: only these tests, and which failed."""

    def __init__(self, names: set[str]) -> None:
        self.names, self.failed = names, ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave the others out."""
        items[:] = [item for item in items if item.nodeid in self.names]

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note one that failed."""
        if report.failed:
            self.failed = report.nodeid


def row(mutant: dict[str, Any]) -> str:
    """Format a survivor as `tests/README.md` lists it."""
    was, became = (mutant[key].replace("|", "\\|") for key in ("was", "is"))
    return f"| `{mutant['file'].removeprefix('src/rbp/')}` | `{was}` | `{became}` |"


def report(mutants: list[dict[str, Any]], listed: str) -> tuple[str, int]:
    """Report how many were noticed, by room, and the survivors, unlisted ones first; and how many are unlisted."""
    total, lived = Counter[str](), Counter[str]()
    mutants = [each for each in mutants if each["operator"]]
    for each in mutants:
        room = next(room for room in ROOMS if each["file"].startswith(room))
        total[room] += 1
        lived[room] += each["by"] is None
    lines = ["| room | mutants | survivors |", "| --- | --- | --- |"]
    lines += [f"| `{room.removeprefix('src/rbp/')}` | {total[room]} | {lived[room]} |" for room in ROOMS]
    survivors = sorted((m for m in mutants if m["by"] is None), key=lambda m: (m["file"], m["line"]))
    new = [each for each in survivors if row(each) not in listed]
    for title, some in {"not listed": new, "listed": [m for m in survivors if m not in new]}.items():
        lines += ["", f"| {title}: file | the line | changed to | at line | tests that reach it |"]
        lines += ["| --- | --- | --- | --- | --- |"]
        lines += [f"{row(each)} {each['line']} | {each['tests']} |" for each in some]
    return "\n".join(lines) + "\n", len(new)


def main() -> None:
    """Draw, judge, report."""
    parser = argparse.ArgumentParser(description="See which changes of the code the tests of `make check` notice.")
    parser.add_argument("--seed", type=int, required=True, help="which mutants: the week's number, in CI")
    parser.add_argument("--number", type=int, default=600, help="how many (default: %(default)s)")
    parser.add_argument("--at", default="HEAD", help="the commit whose code and tests these are (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=ROOT / "_build" / "mutants", help="where all is kept")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve() / git("rev-parse", "--short=12", chosen.at)
    if not (tree := folder / "tree").exists():
        git("worktree", "add", "--quiet", "--detach", str(tree), chosen.at)
    git("-C", str(tree), "checkout", "--quiet", "--", "src")
    os.chdir(tree)
    os.environ |= {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    sys.path[:0] = [str(tree / "src"), str(tree)]
    files = [str(path) for path in sorted(Path("tests").rglob("test_*.py"))]
    import_libraries(files)
    (reached := folder / "reached").mkdir(exist_ok=True)
    for file in files:
        measure(file, reached)
    suite, done = Suite(reached), folder / f"{chosen.seed}.jsonl"
    known = [json.loads(line) for line in done.read_text().splitlines()] if done.exists() else []
    for mutant in draw(chosen.seed, chosen.number)[len(known) :]:
        known.append(judge(suite, *mutant))
        with done.open("a") as out:
            out.write(json.dumps(known[-1]) + "\n")
    table, new = report(known, (ROOT / "tests" / "README.md").read_text())
    done.with_suffix(".md").write_text(table)
    sys.stdout.write(table)
    sys.exit(1 if new else 0)


if __name__ == "__main__":
    main()
