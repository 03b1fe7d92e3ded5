"""Steps of small projects: `src/heavy.py` makes the tables, and notes in `made.txt` each time that it does."""

import importlib
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest
from mini import write_chapter

from rbp.book import steps as steps_module
from rbp.book.build import build, outrun, run_step, step_urgency
from rbp.book.chapters import Chapter, execute, find, times
from rbp.book.site import made_page
from rbp.book.steps import bring_up_to_date, imported, named, table
from rbp.core import provenance
from rbp.core.errors import ChapterError, DataError, ParameterError
from rbp.core.paths import ROOT, Project

ROOMS = ("evidence/sources.py", "evidence/published.py", "ranks/__init__.py", "core/paths.py")

HEAVY = """
import time
from pathlib import Path

import pandas as pd

from rbp.book.steps import step

ROOT = Path(__file__).parents[1]


@step("double", reads=["data/a.csv"])
def double():
    from helpers.numbers import TWO

    with (ROOT / "made.txt").open("a") as made:
        made.write("x")
    if (ROOT / "slowly").exists():
        time.sleep(0.3)
    values = pd.read_csv(ROOT / "data" / "a.csv")["x"]
    return pd.DataFrame({"x": values * TWO, "word": "ñ"})


@step("careless", reads=["data/b"])
def careless():
    from rbp.core import paths, provenance

    provenance.note(paths.DATA / "b" / "part.csv", paths.DATA / "c.csv")
    return pd.DataFrame()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a step "double"."""
    source = tmp_path / "src"
    (source / "helpers").mkdir(parents=True)
    (source / "heavy.py").write_text(HEAVY)
    (source / "helpers" / "__init__.py").touch()
    (source / "helpers" / "numbers.py").write_text("from .digits import TWO\n")
    (source / "helpers" / "digits.py").write_text("TWO = 2\n")
    (source / "helpers" / "unrelated.py").write_text("THREE = 3\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("x\n1\n5\n")
    (tmp_path / "requirements.lock").write_text("one==1\n")
    (tmp_path / "requirements-torch.lock").write_text("torch==1\n")
    monkeypatch.syspath_prepend(source)
    monkeypatch.setenv("PYTHONPATH", str(source), prepend=os.pathsep)
    (tmp_path / "book").mkdir()
    for name in ("heavy", "helpers", "helpers.numbers", "helpers.digits"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    return Project(tmp_path)


def made(project: Project) -> int:
    path = project.root / "made.txt"
    return len(path.read_text()) if path.exists() else 0


def test_a_table_is_made_once_and_read_as_it_was_made(project: Project) -> None:
    expected = pd.DataFrame({"x": [2, 10], "word": ["ñ", "ñ"]})
    with provenance.recording() as read:
        pd.testing.assert_frame_equal(table("double", project), expected, check_dtype=False)
    assert (read.files, read.steps) == (set(), {"double"})
    first = (project.steps / "double.parquet").read_bytes()
    pd.testing.assert_frame_equal(table("double", project), expected, check_dtype=False)
    assert made(project) == 1
    (project.steps / "double.parquet").unlink()
    table("double", project)
    assert made(project) == 2
    assert (project.steps / "double.parquet").read_bytes() == first


@pytest.mark.parametrize(
    ("path", "again"),
    [
        ("data/a.csv", True),
        ("src/heavy.py", True),
        ("src/helpers/__init__.py", True),
        ("src/helpers/numbers.py", True),
        ("src/helpers/digits.py", True),
        ("requirements.lock", True),
        ("requirements-torch.lock", True),
        ("src/helpers/unrelated.py", False),
    ],
)
def test_what_makes_a_table_stale_and_what_does_not(project: Project, path: str, again: bool) -> None:
    assert bring_up_to_date(project, "double") is not None
    (project.root / path).touch()
    assert bring_up_to_date(project, "double") is None, "an old file with a new date is no change"
    with (project.root / path).open("a") as stream:
        stream.write("\n")
    assert (bring_up_to_date(project, "double") is not None) == again
    assert bring_up_to_date(project, "double") is None


def test_a_folder_is_read_whole(project: Project) -> None:
    code = project.root / "src" / "heavy.py"
    code.write_text(HEAVY.replace('"data/a.csv"', '"data"'))
    bring_up_to_date(project, "double")
    (project.root / "data" / "deep").mkdir()
    (project.root / "data" / "deep" / "new.csv").touch()
    assert bring_up_to_date(project, "double") is not None


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", b"{}", b"[1", b"\xff"])
@pytest.mark.parametrize("ending", ["parquet", "json"])
def test_a_corrupt_file_is_made_again(project: Project, ending: str, content: bytes) -> None:
    first = table("double", project)
    (project.steps / f"double.{ending}").write_bytes(content)
    pd.testing.assert_frame_equal(table("double", project), first)
    assert made(project) == 2


def test_an_unknown_step_gets_the_nearest_name(project: Project) -> None:
    with pytest.raises(ParameterError, match=r'no step "duoble".*\nDid you mean "double"\?'):
        table("duoble", project)
    assert not project.steps.exists()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("@step(", r"this is no Python.*\(more\)"),
        ("@step()\ndef f(): ...", r"declares no step.*\(more, line 1\)"),
        ("READS = []\n@step('a', reads=READS)\ndef f(): ...", r"declares no step: no plain values \(more, line 2\)"),
        ("@step('a', reads='data')\ndef f(): ...", "declares no step: reads Input should be a valid list"),
        ("@step('a', read=[])\ndef f(): ...", "declares no step: reads Field required"),
        ("@step('a', reads=[], seconds='9')\ndef f(): ...", "declares no step: seconds Input should be"),
        ("@step('double', reads=[])\ndef f(): ...", r'two steps are called "double" \(heavy, more\)'),
    ],
)
def test_steps_that_are_declared_wrongly(project: Project, code: str, words: str) -> None:
    (project.root / "src" / "more.py").write_text(code)
    with pytest.raises(ParameterError, match=words):
        table("double", project)


def test_the_book_s_steps_are_there() -> None:
    names = {step for path in (ROOT / "notebooks").glob("*.ipynb") for step in Chapter(path).steps}
    assert len(names) > 5
    for name in names:
        found = steps_module.find_step(Project(), name)
        assert isinstance(getattr(importlib.import_module(found.module), found.function), steps_module.MadeOnce)


class Source:
    """A source by the names that come with a project."""

    def __init__(self, *shipped: str) -> None:
        self.shipped = frozenset(shipped)

    def is_exactly(self, *shipped: str) -> bool:
        return self.shipped == set(shipped)


def test_a_step_of_a_source_is_read_for_that_source_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "table", lambda name: f"the table {name}")
    count = steps_module.step("counts", reads=[], of=lambda: Source("b", "a"))(lambda source: len(source.shipped))
    assert count(Source("a", "b")) == "the table counts"
    assert [count(Source("a")), count(Source("a", "b", "c")), count.make()] == [1, 3, 2]
    assert steps_module.step("one", reads=[])(lambda: 1)() == "the table one"


def test_a_step_needs_its_files(project: Project) -> None:
    (project.root / "data" / "a.csv").unlink()
    with pytest.raises(DataError, match=r"reads a file that is not there \(double: .*a\.csv"):
        table("double", project)


def test_a_step_declares_what_it_reads(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.root / "data" / "b").mkdir()
    with provenance.recording() as read:
        provenance.note(ROOT / "data" / "of-the-chapter.csv")
        with pytest.raises(ChapterError, match=r"what it does not declare: data/c\.csv \(careless"):
            table("careless", project)
    assert read.files == {ROOT / "data" / "of-the-chapter.csv"}, "what a step reads is not noted as the chapter's"
    assert read.steps == {"careless"}
    assert not (project.steps / "careless.parquet").exists()


def test_two_processes_make_a_table_once(project: Project) -> None:
    (project.root / "slowly").touch()
    code = "from pathlib import Path; from rbp.core.paths import Project; from rbp.book.steps import table\n"
    code += f"print(table('double', Project(Path({str(project.root)!r})))['x'].sum())"
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in "ab"]
    assert [process.communicate()[0] for process in running] == ["12\n", "12\n"]
    assert made(project) == 1


def test_the_code_of_a_step_is_all_that_it_imports(project: Project) -> None:
    found = [
        path.relative_to(ROOT / "src" / "rbp").as_posix() for path in imported(ROOT / "src", "rbp.evidence.sources")
    ]
    assert {"__init__.py", *ROOMS} <= set(found)
    assert not {"book/page.py", "cli/app.py", "book/steps.py", "book/build.py"} & set(found)
    code = (
        "import sys, rbp.evidence.sources; "
        "print(*[m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'rbp'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, timeout=600
    )
    assert {Path(path) for path in done.stdout.split()} <= set(imported(ROOT / "src", "rbp.evidence.sources"))


def test_an_import_is_found_in_every_kind_of_block() -> None:
    code = """
        import a
        def f():
            async def g():
                from .b import c
        class D:
            import e.f
        for _ in ():
            while False:
                import g
            else:
                import h
        else:
            import i
        if True:
            import j
        elif True:
            import k
        with open as x:
            from ..l import m as n
        try:
            import o
        except* ValueError:
            import p
        else:
            import q
        finally:
            import r
        match x:
            case 1:
                import s
        (lambda: [y if y else y for y in x])()
    """
    places = ["a", "one.two.b", "one.two.b.c", "e.f", *"ghijk", "one.l", "one.l.m", *"opqrs"]
    assert sorted(named(textwrap.dedent(code), "one.two")) == sorted(places)


def read_in(project: Project) -> str:
    return f"""
        from pathlib import Path
        from rbp.book import steps
        from rbp.core import provenance
        from rbp.core.paths import Project
        value = int(steps.table("double", Project(Path({str(project.root)!r})))["x"].sum())
    """


def declare_read(path: Path) -> None:
    """Let the chapter's last cell say, as `page.close()` does, which steps were read."""
    said = r"\"reads\": [], \"steps\": sorted(provenance.noted().steps)}"
    path.write_text(path.read_text().replace(r"\"reads\": []}", said))


def test_a_chapter_declares_the_steps_that_it_reads(project: Project) -> None:
    declare_read(write_chapter(project, "01_a", read_in(project)))
    with pytest.raises(ChapterError, match=r"it reads undeclared steps: double.*\nAdd them to rbp\.steps"):
        execute(find(project, "01_a"), {}, project.runs / "a", project.root)
    declare_read(write_chapter(project, "01_a", read_in(project), steps=("double",)))
    execute(find(project, "01_a"), {}, project.runs / "a", project.root)
    results = json.loads((project.runs / "a" / "results.json").read_text())
    assert (results["values"]["value"]["value"], results["steps"]) == (12, ["double"])
    assert made(project) == 1


def test_a_step_is_as_urgent_as_what_waits_for_it_is_long(project: Project) -> None:
    steps = "@step('slow', reads=[], seconds=5)\ndef a(): ...\n@step('quick', reads=[])\ndef b(): ...\n"
    (project.root / "src" / "more.py").write_text(steps)
    for name, long in (("01_a", 7), ("02_b", 4)):
        path = write_chapter(project, name, "value = 1", steps=("slow",))
        path.write_text(path.read_text().replace('"rbp": {', f'"rbp": {{"seconds": {long}, '))
    assert (step_urgency(project, "slow"), step_urgency(project, "quick")) == (5 + 7, 0)
    path.write_text(path.read_text().replace('"seconds": 4', '"seconds": "long"'))
    with pytest.raises(ChapterError, match="seconds is no whole number"):
        step_urgency(project, "slow")


@pytest.mark.builds
def test_the_book_makes_what_is_stale_and_executes_the_chapters_after_it(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    declare_read(write_chapter(project, "01_a", read_in(project), steps=("double",)))
    write_chapter(project, "02_b", "value = 2")

    def executed() -> list[str]:
        assert build(project, 2, ["_build/results.json"]), capfd.readouterr()
        return re.findall(r"^(?:\[\d/\d\]|step) (\w+) … [\d.]+ s", capfd.readouterr().out, re.MULTILINE)

    assert sorted(executed()) == ["01_a", "02_b", "double"]
    assert list(times(project)) == ["double", "01_a", "02_b"]
    assert re.search(r"\| double \| \d+\.\d \|", made_page(project))
    (project.root / "data" / "a.csv").write_text("x\n1\n6\n")
    assert executed() == ["double", "01_a"]
    assert json.loads(project.results.read_text())["01_a"]["value"]["value"] == 14

    (project.root / "data" / "a.csv").write_text("x\n1\n7\n")
    table("double", project)  # as `rbp run` does
    old = made(project)
    assert executed() == ["01_a"], "what another process has made is not made again"
    assert made(project) == old

    write_chapter(project, "01_a", steps=("duoble",))
    with pytest.raises(ParameterError, match='Did you mean "double"'):
        build(project)


def test_a_table_whose_data_were_saved_while_it_was_made_is_to_be_made_again(project: Project) -> None:
    write_chapter(project, "01_a", steps=("double",))
    assert run_step(project, "double")
    assert outrun(project) == []
    (project.root / "data" / "a.csv").write_text("x\n1\n8\n")
    assert outrun(project) == ["_build/steps/double.parquet"]
    assert run_step(project, "double")
    assert (outrun(project), made(project)) == ([], 2)


def test_a_fresh_table_is_touched_and_not_made_again(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_step(project, "double")
    for path in project.steps.glob("double.*"):
        os.utime(path, (1, 1))
    assert run_step(project, "double")
    assert made(project) == 1
    assert all(path.stat().st_mtime > 1 for path in project.steps.glob("double.*"))
    assert "step double … is fresh" in capsys.readouterr().out
    (project.root / "data" / "a.csv").unlink()
    assert not run_step(project, "double")
    assert "step double failed: the step reads a file that is not there" in capsys.readouterr().out
