"""Steps of small projects: `src/heavy/tables.py` makes the tables, and notes in `made.txt` each time that it does."""

import importlib
import sys

import pandas as pd
import pytest

from companion.execute import steps as steps_module
from companion.execute.steps import read_table
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
        pd.testing.assert_frame_equal(read_table("double", project), expected, check_dtype=False)
    assert (read.files, read.steps) == (set(), {"double"})
    assert not project.steps.exists()
    assert run_step(project, "double")
    pd.testing.assert_frame_equal(pd.read_parquet(project.steps / "double.parquet"), expected, check_dtype=False)
    (project.root / "made.txt").unlink()
    monkeypatch.setenv(steps_module.TABLES, str(project.steps))
    pd.testing.assert_frame_equal(read_table("double", project), expected, check_dtype=False)
    assert not (project.root / "made.txt").exists(), "it is not made again"


def test_a_step_declares_what_it_reads(project, monkeypatch):
    (project.root / "data" / "b").mkdir()
    with provenance.recording() as read:
        provenance.note(ROOT / "data" / "of-the-chapter.csv")
        with pytest.raises(ChapterError, match=r"what it does not declare: data/c\.csv \(careless"):
            read_table("careless", project)
    assert read.files == {ROOT / "data" / "of-the-chapter.csv"}, "what a step reads is not noted as the chapter's"
    assert not (project.steps / "careless.parquet").exists()
