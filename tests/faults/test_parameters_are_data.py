"""A parameter that is misspelt, mistyped, out of range, or looks like code is a message or plain data."""

import json
from pathlib import Path

import pytest
from mini import write_chapter

from companion.execute.parameters import check, parse
from companion.execute.run import Chapter, all_chapters, execute
from companion.project import Project
from rbp.errors import ParameterError

CODE = [
    "__import__('os').system('touch canary')",
    "'); import pathlib; pathlib.Path('canary').touch() #",
    '"""\nimport pathlib; pathlib.Path("canary").touch()\n"""',
    "{__import__('pathlib').Path('canary').touch()}",
    "%%bash\ntouch canary",
    "\\'); import pathlib; pathlib.Path('canary').touch() #",
    "\\\n\r\t\x1b[31m",
]


@pytest.mark.usefixtures("without_kernel")
def test_values_that_look_like_code_stay_text(tmp_path: Path) -> None:
    project, parameters = Project(tmp_path), 'words: list[str] = ["a"]  # words'
    cell = "import json, pathlib\nvalue = len(words)\npathlib.Path('words.json').write_text(json.dumps(words))"
    chapter = Chapter(write_chapter(project, "01_a", cell, parameters=parameters))
    execute(chapter, check(chapter.parameters, {"words": CODE}, "01_a"), project.runs / "out", project.root)
    assert json.loads((tmp_path / "words.json").read_text()) == CODE
    assert not list(tmp_path.rglob("canary"))


def test_every_number_of_every_chapter_has_a_range_and_what_is_outside_is_refused() -> None:
    """So a wrong number is told before a kernel starts, by `rbp run` and in the live book."""
    for chapter in all_chapters(Project()):
        for parameter in chapter.parameters:
            if not parameter.type.removeprefix("list[").startswith(("int", "float")) or parameter.choices:
                continue
            low = parameter.bounds.get("ge", parameter.bounds.get("gt"))
            assert low is not None, f"{chapter.name} says no range of {parameter.name}"
            with pytest.raises(ParameterError, match="is out of range"):
                parse(chapter.parameters, [f"{parameter.name}={-(10**9)}"], chapter.name)
