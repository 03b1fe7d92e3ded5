"""What a pull request's summary says of numbers and figures that a change moved."""

import importlib.util
import subprocess

from companion import results
from companion.ledger.claims import read_claims
from companion.project import ROOT, Project

FILE = ROOT / ".ci" / "changed.py"


def test_moved_values_stand_with_their_claims_and_changed_figures_are_copied(tmp_path):
    spec = importlib.util.spec_from_file_location("changed", FILE)
    changed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(changed)
    claim = next(claim for claim in read_claims() if claim.name == "law")
    chapter, key = claim.keys["high"].split("::")
    project = Project(tmp_path / "now")
    values = {chapter: {key: results.recorded(key, 60), "same": results.recorded("same", 1.5)}}
    results.write_book(project.expected, values)
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "before"],
    ):
        subprocess.run(["git", "-C", str(project.root), *words], check=True)
    results.write_book(project.results, {chapter: values[chapter] | {key: results.recorded(key, 59)}})
    before = tmp_path / "before"
    for folder, text in ((before, "old"), (project.html, "new")):
        for figure, content in (("law", text), ("other", "same")):
            path = folder / "notebooks" / chapter / f"{figure}.svg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    summary = changed.summarize(project, "HEAD", before)
    assert [line for line in summary.splitlines() if line.startswith(f"| {chapter}::")] == [
        f"| {chapter}::{key} | 60 | 59 | {claim.number} (law) |"
    ]
    assert "### Figures that differ: 1" in summary
    copies = {path.parent.parent.parent.name: path.read_text() for path in (project.build / "changed").rglob("*.svg")}
    assert copies == {"before": "old", "after": "new"}
