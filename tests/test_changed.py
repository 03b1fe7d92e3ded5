"""What a pull request's summary says of what a change moved."""

import importlib.util
import subprocess

import pytest
from mini import write_chapter

from companion.execute import results
from companion.ledger.claims import read_claims
from companion.project import CLAIMS, ROOT, Project
from companion.render.build import sources_of
from rbp.io import write_json

LAW = next(claim for claim in read_claims() if claim.name == "law")
CHAPTER, _, KEY = LAW.keys["high"].partition("::")
PLACE = CLAIMS.relative_to(ROOT)


@pytest.fixture(scope="module")
def changed():
    spec = importlib.util.spec_from_file_location("changed", ROOT / ".ci" / "changed.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(**values):
    return {CHAPTER: {key: results.recorded(key, *each) for key, each in values.items()}}


BEFORE = {KEY: (60,), "r_squared.a": (0.5,), "same": (1.5,), "law.csv": ("aaaa", results.CHECKSUM)}


@pytest.fixture
def project(tmp_path):
    """A book of one chapter, committed with its accepted values, and built."""
    project = Project(tmp_path / "now")
    write_chapter(project, CHAPTER)
    results.write_book(project.expected, record(**BEFORE))
    claims = project.root / PLACE
    claims.parent.mkdir(parents=True)
    claims.write_text('[law]\nsays = "nine of ten"\nholds = "a >= b"\n[law.bars.b]\nat = 0.9\n[gone]\nsays = "old"\n')
    author = ["-c", "user.name=a", "-c", "user.email=b"]
    for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "before"]):
        subprocess.run(["git", "-C", str(project.root), *words], check=True)
    build(project, **BEFORE)
    return project


def build(project, **values):
    results.write_book(project.results, record(**values))
    results.write_chapter(
        project.chapters / CHAPTER / "results.json", results.ChapterResults(CHAPTER, record(**values)[CHAPTER])
    )
    write_json(project.inputs / f"{CHAPTER}.json", sources_of(project, CHAPTER))
    write(project.chapters / CHAPTER / CHAPTER, values["law.csv"][0], figure="same")


def write(folder, table, figure):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "law.csv").write_text(table)
    (folder / "law.svg").write_text(figure)


def rows(summary):
    return [line for line in summary.splitlines() if line.startswith("| ") and "---" not in line]


def test_nothing_is_said_of_a_build_that_changes_nothing(project, changed, tmp_path):
    write(tmp_path / "before" / "notebooks" / CHAPTER, "aaaa", "same")
    summary, current = changed.summarize(project, "HEAD", tmp_path / "before")
    assert current
    assert rows(summary) == []
    assert summary.count(": 0") == 4


def test_values_stand_with_their_claims_and_changed_files_are_copied(project, changed, tmp_path):
    """One value a claim names, one that it names with others by a star, a table, a figure that has other bytes."""
    build(project, **BEFORE | {KEY: (59,), "r_squared.a": (0.25,), "law.csv": ("bbbb", results.CHECKSUM)})
    write(tmp_path / "before" / "notebooks" / CHAPTER, "aaaa", "other")
    summary, _ = changed.summarize(project, "HEAD", tmp_path / "before")
    moved = [row for row in rows(summary) if f"| {CHAPTER}::" in row]
    assert moved[0].startswith(f"| {CHAPTER}::{KEY} | 60 | 59 | ")
    assert moved[1].startswith(f"| {CHAPTER}::r_squared.a | 0.5 | 0.25 | ")
    assert all("1 (law)" in row for row in moved)
    assert len(moved) == 2
    assert f"| {CHAPTER}/law.csv | moved |" in summary
    assert f"| {CHAPTER}/law.svg |" in summary
    copies = project.build / "changed"
    found = {str(path.relative_to(copies)): path.read_text() for path in copies.rglob("*") if path.is_file()}
    assert found == {
        f"before/{CHAPTER}/law.csv": "aaaa",
        f"after/{CHAPTER}/law.csv": "bbbb",
        f"before/{CHAPTER}/law.svg": "other",
        f"after/{CHAPTER}/law.svg": "same",
    }


def test_a_verdict_stands_with_its_claim(changed):
    assert changed.name_readers("ledger::verdict.law", read_claims()) == "1 (law)"


def test_a_claim_whose_bar_rule_or_wording_differs_is_named(project, changed):
    text = '[law]\nsays = "all"\nholds = "a > b"\n[law.bars.b]\nat = 0.99\n[new]\nsays = "new|er"\n'
    (project.root / PLACE).write_text(text)
    summary, _ = changed.summarize(project, "HEAD", None)
    assert rows(summary)[1:] == [
        "| gone | says | old | – |",
        "| law | says | nine of ten | all |",
        "| law | holds | a >= b | a > b |",
        "| law | bars.b.at | 0.9 | 0.99 |",
        "| new | says | – | new\\|er |",
    ]
    assert "Figures are not compared" in summary


@pytest.mark.parametrize("state", ["another tree", "old results", "nothing"])
def test_a_build_of_another_tree_is_not_compared(project, changed, state):
    """A datum was changed and the build failed; the chapter failed, and its old results lie there; a fresh machine."""
    if state == "another tree":
        write_chapter(project, CHAPTER, "value = 3")
    elif state == "old results":
        (project.chapters / CHAPTER / "results.json").unlink()
    else:
        subprocess.run(["rm", "-r", str(project.build)], check=True)
    summary, current = changed.summarize(project, "HEAD", None)
    assert not current
    assert f"- {CHAPTER} " in summary
    assert "Values that differ" not in summary
    assert "Claims whose rule, bar or wording differs: 0" in summary
