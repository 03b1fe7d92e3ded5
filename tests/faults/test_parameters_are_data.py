"""A parameter that is misspelt, mistyped, out of range, or looks like code is a message or plain data."""

import ast
import json
import math
from pathlib import Path

import papermill
import pytest
from commands import here, refused
from hypothesis import example, given
from hypothesis import strategies as st
from mini import write_chapter
from papermill.translators import papermill_translators

from companion.parameters import Parameter, check, parse
from companion.project import Project
from companion.run import Chapter, all_chapters, execute
from rbp.errors import ParameterError

CODE = [
    "__import__('os').system('touch canary')",
    "'); import pathlib; pathlib.Path('canary').touch() #",
    '"""\nimport pathlib; pathlib.Path("canary").touch()\n"""',
    "{__import__('pathlib').Path('canary').touch()}",
    "$(touch canary) `touch canary` ; touch canary | touch canary && touch canary",
    "%%bash\ntouch canary",
    "!touch canary",
    "\\'); import pathlib; pathlib.Path('canary').touch() #",
    "\\\n\r\t\0\x1b[31m",
    "<script>alert(1)</script>",
]
numbers = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    numbers | st.text() | st.sampled_from(CODE), lambda inner: st.lists(inner, max_size=4), max_leaves=5
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), values, min_size=1))
@example({"a": CODE})
def test_what_is_put_into_the_notebook_is_the_value_and_nothing_else(given_):
    """The cell that papermill writes holds assignments of literals, which are the values."""
    translator = papermill_translators.find_translator("python3", "python")
    body = ast.parse(translator.codify(given_)).body
    assert all(isinstance(node, ast.Assign) for node in body)
    found = {node.targets[0].id: ast.literal_eval(node.value) for node in body}
    assert json.dumps(found) == json.dumps(given_)


@pytest.mark.usefixtures("without_kernel")
def test_values_that_look_like_code_stay_text(tmp_path: Path) -> None:
    project = Project(tmp_path)
    chapter = Chapter(
        write_chapter(
            project,
            "01_a",
            "import json, pathlib\nvalue = len(words)\npathlib.Path('words.json').write_text(json.dumps(words))",
            parameters='words: list[str] = ["a"]  # words',
        )
    )
    words = [text.replace("\0", "") for text in CODE]
    execute(chapter, check(chapter.parameters, {"words": words}, "01_a"), project.runs / "out", project.root)
    assert json.loads((tmp_path / "words.json").read_text()) == words
    assert not list(tmp_path.rglob("canary"))


def test_every_number_of_every_chapter_has_a_range_and_what_is_outside_is_refused() -> None:
    """So a wrong number is told before a kernel starts, by `rbp run` and in the live book."""
    for chapter in all_chapters(Project()):
        for parameter in chapter.parameters:
            if not parameter.type.removeprefix("list[").startswith(("int", "float")) or parameter.choices:
                continue
            low = parameter.bounds.get("ge", parameter.bounds.get("gt"))
            assert low is not None, f"{chapter.name} says no range of {parameter.name}"
            for value in (low - 1 if "ge" in parameter.bounds else low, -(10**9)):
                with pytest.raises(ParameterError, match=f"{value} is out of range \\(parameter {parameter.name}\\)"):
                    parse(chapter.parameters, [f"{parameter.name}={value}"], chapter.name)


def test_papermill_reads_the_same_declarations() -> None:
    """Its own inspection, which reads lines by a pattern, for who runs a chapter with papermill itself."""
    for chapter in all_chapters(Project()):
        found = papermill.inspect_notebook(chapter.path)
        for parameter in chapter.parameters:
            if parameter.choices is None:  # of Literal["a"], it understands nothing
                read = found[parameter.name]
                assert (read["inferred_type_name"], read["help"]) == (parameter.type, parameter.help)
                assert ast.literal_eval(read["default"]) == parameter.default


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        *(("str", text, "no text") for text in ("a\udc80b", "\ud800", "a\0b")),
        ("list[str]", ["fine", "\udfff"], "no text"),
        *(("float", number, "is no float") for number in (math.inf, math.nan, "0.5", None, True, [0.5])),
    ],
)
def test_a_value_of_another_kind_is_refused(kind, value, says) -> None:
    parameter = Parameter("name", kind, {"str": "a", "list[str]": ["a"], "float": 0.95}[kind], "help")
    with pytest.raises(ParameterError, match=says):
        check([parameter], {"name": value}, "01_a")


@pytest.mark.parametrize("kind", ["list[int]", "list[str]"])
def test_a_list_that_is_nested_too_deeply(kind) -> None:
    with pytest.raises(ParameterError, match="is no list"):
        parse([Parameter("k", kind, [], "help")], ["k=" + "[" * 100_000], "01_a")


def test_a_chapter_is_not_run_with_a_number_out_of_range(monkeypatch) -> None:
    monkeypatch.setattr("companion.run.execute", lambda *_, **__: pytest.fail("it runs"))
    said = "error: 1 is out of range (parameter level)\nIts range is 0 < level < 1, its default 0.95.\n"
    refused(here("run", "holds", "-p", "level=1"), said)


FIT = {"measurements": "published", "dataset": "wikipedia", "family": "Pythia", "k": "1"}


@pytest.mark.parametrize(
    "change",
    [
        {"k": "0"},
        {"level": "1.5"},
        {"level": "nan"},
        {"metric": "perplexity"},
        {"dataset": "wikpedia"},
        {"measurements": "a" * 5000 + ".csv"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_fit_out_of_range_is_a_message(change) -> None:
    refused(here("fit", *(word for name, value in (FIT | change).items() for word in (f"--{name}", value))))
