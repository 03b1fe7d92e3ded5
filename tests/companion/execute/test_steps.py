"""Steps of small projects: `src/heavy/tables.py` makes the tables, and notes in `made.txt` each time that it does."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from mini import write_chapter

from companion.execute import steps as steps_module
from companion.execute.inputs import imported_files, named_modules
from companion.execute.run import execute, find
from companion.execute.steps import table
from companion.project import ROOT, Project
from companion.render.build import run_step
from rbp import provenance
from rbp.errors import ChapterError

HEAVY = """
from pathlib import Path

import pandas as pd

from companion.execute.steps import step

ROOT = Path(__file__).parents[2]


@step("double", reads=["data/a.csv"])
def double():
    from heavy.digits import TWO

    with (ROOT / "made.txt").open("a") as made:
        made.write("x")
    values = pd.read_csv(ROOT / "data" / "a.csv")["x"]
    return pd.DataFrame({"x": values * TWO, "word": "ñ"})


@step("careless", reads=["data/b"])
def careless():
    from companion.project import DATA
    from rbp import provenance

    provenance.note(DATA / "b" / "part.csv", DATA / "c.csv")
    return pd.DataFrame()
"""


FILES = {
    "src/heavy/__init__.py": "",
    "src/heavy/tables.py": HEAVY,
    "src/heavy/digits.py": "TWO = 2\n",
    "data/a.csv": "x\n1\n5\n",
    "requirements.lock": "one==1\n",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "src")
    for name in ("heavy", "heavy.tables", "heavy.digits"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    return Project(tmp_path)


def test_a_table_is_computed_outside_the_build_and_read_inside(project, monkeypatch):
    expected = pd.DataFrame({"x": [2, 10], "word": ["ñ", "ñ"]})
    with provenance.recording() as read:
        pd.testing.assert_frame_equal(table("double", project), expected, check_dtype=False)
    assert (read.files, read.steps) == (set(), {"double"})
    assert not project.steps.exists()
    assert run_step(project, "double")
    pd.testing.assert_frame_equal(pd.read_parquet(project.steps / "double.parquet"), expected, check_dtype=False)
    (project.root / "made.txt").unlink()
    monkeypatch.setenv(steps_module.TABLES, str(project.steps))
    pd.testing.assert_frame_equal(table("double", project), expected, check_dtype=False)
    assert not (project.root / "made.txt").exists(), "it is not made again"


def test_a_step_declares_what_it_reads(project, monkeypatch):
    (project.root / "data" / "b").mkdir()
    with provenance.recording() as read:
        provenance.note(ROOT / "data" / "of-the-chapter.csv")
        with pytest.raises(ChapterError, match=r"what it does not declare: data/c\.csv \(careless"):
            table("careless", project)
    assert read.files == {ROOT / "data" / "of-the-chapter.csv"}, "what a step reads is not noted as the chapter's"
    assert not (project.steps / "careless.parquet").exists()


def test_what_a_module_imports_is_among_its_files():
    """What the static graph finds holds all that Python loads of the project for the same import."""
    module = "rbp.cli"  # of all, the one that imports the least from other packages
    code = f"import sys, {module}; print(*[m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'rbp'])"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    files = set(imported_files(Project(), [module]))
    assert {Path(path) for path in done.stdout.split()} <= files


def test_imports_of_a_cell_are_found_wherever_they_stand():
    code = "import a.b\ndef f():\n    from c import d as e\nif x:\n    import g\n"
    assert named_modules(code) == {"a.b", "c", "c.d", "g"}
    assert named_modules("%matplotlib inline") == set()


def read_in(project):
    return f"""
        from pathlib import Path
        from companion.execute import steps
        from rbp import provenance
        from companion.project import Project
        value = int(steps.table("double", Project(Path({str(project.root)!r})))["x"].sum())
    """


def declare_read(path):
    """Let the chapter's last cell say, as `page.close()` does, which steps were read."""
    said = r"\"reads\": [], \"steps\": sorted(provenance.noted().steps)}"
    path.write_text(path.read_text().replace(r"\"reads\": []}", said))


def test_a_chapter_declares_the_steps_that_it_reads(project, without_kernel):
    declare_read(write_chapter(project, "01_a", read_in(project)))
    with pytest.raises(ChapterError, match=r"it reads undeclared steps: double.*\nAdd them to rbp\.steps"):
        execute(find(project, "01_a"), {}, project.runs / "a", project.root)
