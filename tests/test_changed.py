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
BEFORE = {KEY: (60,), "same": (1.5,), "law.csv": ("aaaa", results.CHECKSUM)}


@pytest.fixture(scope="module")
def summarize():
    spec = importlib.util.spec_from_file_location("changed", ROOT / ".ci" / "changed.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.summarize


@pytest.fixture
def project(tmp_path):
    """A book of one chapter, committed with its accepted values, and built."""
    project = Project(tmp_path / "now")
    write_chapter(project, CHAPTER)
    claims = project.root / CLAIMS.relative_to(ROOT)
    claims.parent.mkdir(parents=True)
    claims.write_text('[law]\nsays = "nine of ten"\n[law.bars.b]\nat = 0.9\n')
    results.write_book(project.expected, build(project, **BEFORE))
    author = ["-c", "user.name=a", "-c", "user.email=b"]
    for words in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "before"]):
        subprocess.run(["git", "-C", str(project.root), *words], check=True)
    return project


def build(project, **values):
    recorded = {key: results.recorded(key, *each) for key, each in values.items()}
    results.write_book(project.results, {CHAPTER: recorded})
    folder = project.chapters / CHAPTER
    results.write_chapter(folder / "results.json", results.ChapterResults(CHAPTER, recorded))
    write_json(project.inputs / f"{CHAPTER}.json", sources_of(project, CHAPTER))
    write(folder / CHAPTER, values["law.csv"][0], figure="same")
    return {CHAPTER: recorded}


def write(folder, table, figure):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "law.csv").write_text(table)
    (folder / "law.svg").write_text(figure)


def rows(summary):
    return [line for line in summary.splitlines() if line.startswith("| ") and "---" not in line]


def test_what_a_build_moved_is_listed_with_its_claims_and_copied(project, summarize, tmp_path):
    """A value that a claim names, a table, a figure with other bytes, and a claim's bar."""
    pages = tmp_path / "before" / "notebooks" / CHAPTER
    write(pages, "aaaa", "same")
    summary, current = summarize(project, "HEAD", tmp_path / "before")
    assert current
    assert rows(summary) == []
    build(project, **BEFORE | {KEY: (59,), "law.csv": ("bbbb", results.CHECKSUM)})
    write(pages, "aaaa", "other")
    claims = project.root / CLAIMS.relative_to(ROOT)
    claims.write_text(claims.read_text().replace("0.9", "0.99"))
    summary, _ = summarize(project, "HEAD", tmp_path / "before")
    (moved,) = [row for row in rows(summary) if f"| {CHAPTER}::" in row]
    assert moved.startswith(f"| {CHAPTER}::{KEY} | 60 | 59 | ")
    assert "1 (law)" in moved
    assert {f"| {CHAPTER}/law.csv | moved |", f"| {CHAPTER}/law.svg |"} <= {*rows(summary)}
    assert "| law | bars.b.at | 0.9 | 0.99 |" in rows(summary)
    copies = project.build / "changed"
    assert [(copies / when / CHAPTER / "law.csv").read_text() for when in ("before", "after")] == ["aaaa", "bbbb"]
    write_chapter(project, CHAPTER, "value = 3")  # a build of another tree is not compared
    summary, current = summarize(project, "HEAD", None)
    assert not current
    assert "Values that differ" not in summary
