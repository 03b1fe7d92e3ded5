"""A parameter that is misspelt, mistyped, out of range, or looks like code is a message or plain data."""

import json
from pathlib import Path

import pytest
from mini import write_chapter

from companion.execute.parameters import check
from companion.execute.run import Chapter, execute
from companion.project import Project

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
