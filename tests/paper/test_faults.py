"""The list of faults names tests that there are, and the figures are those of a run."""

import ast
import json

import pytest

from rbp.core.errors import DataError
from rbp.core.paths import ROOT
from rbp.paper.costs import slurm_simulation
from rbp.paper.faults import FOLDER, KINDS, architectures, by_outcome, figures, listed_faults, verdict


def test_every_test_that_is_named_is_there() -> None:
    table = listed_faults()
    assert table["number"].tolist() == list(range(1, 23))
    for name in " ".join(table["tests"]).split():
        file, _, test = name.partition("::")
        assert (ROOT / file).is_file(), name
        if test:
            tree = ast.parse((ROOT / file).read_text())
            assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name


def test_every_test_of_a_fault_is_named() -> None:
    named = " ".join(listed_faults()["tests"])
    for path in sorted((ROOT / "tests" / "faults").glob("test_*.py")):
        assert path.relative_to(ROOT).as_posix() in named


def test_the_figures_are_those_of_a_run() -> None:
    found = figures()
    assert set(found.counts["kind"]) <= set(KINDS)
    assert (found.counts["count"] >= 0).all()
    assert found.total("kills") == sum(json.loads((FOLDER / "figures.json").read_text())["kills"].values())


def test_the_shards_were_merged_into_the_same_store() -> None:
    run = slurm_simulation()
    assert run is not None
    assert run["shards"] >= 32
    assert run["same_store"] is True
    assert run["seconds"] <= run["allowed"]


def test_no_architecture_is_ranked_wrongly() -> None:
    table = architectures()
    assert set(table["outcome"]) <= {"exact", "refused", "not built"}
    assert (table["outcome"] == "exact").mean() > 0.8
    assert (table["reason"] == "").equals(table["outcome"] == "exact")
    grouped = by_outcome(table)
    assert grouped["models"].sum() == len(table)
    assert grouped["outcome"].iloc[0] == "exact"
    assert "Not one has a wrong rank" in verdict(table)
    assert "Ranks are wrong in 1" in verdict(table.assign(outcome=["wrong", *table["outcome"][1:]]))


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"date": 1}', '{"kills": {"a": "many"}}'])
def test_other_files_are_no_figures(tmp_path, content) -> None:
    if content is not None:
        (tmp_path / "figures.json").write_text(content)
    with pytest.raises(DataError, match="make test-slow"):
        figures(tmp_path)
