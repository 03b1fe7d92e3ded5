"""The list of faults names tests that there are, and the figures are those of a run."""

import ast
import json

import pandas as pd
import pytest

from rbp.core.errors import DataError
from rbp.core.paths import ROOT
from rbp.paper import faults
from rbp.paper.costs import slurm_simulation
from rbp.paper.faults import FOLDER, KINDS, architectures, by_outcome, figures, listed_faults


def test_every_test_that_is_named_is_there() -> None:
    table = listed_faults()
    assert table["number"].tolist() == list(range(1, 26))
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


def test_outcomes_are_counted() -> None:
    table = pd.DataFrame(
        {
            "model": ["a", "a", "b", "c", "d"],
            "outcome": ["exact", "exact", "wrong", "not built", "exact"],
            "tokens": [10, 20, 40, 0, 80],
            "near": [1, 2, 4, 0, 0],
        }
    )
    counts = {"exact": 3, "wrong": 1, "refused": 0, "not_built": 1}
    assert faults.outcomes(table) == {"families": 4, "models": 5, "tokens": 110, "near": 3} | counts


def test_a_page_shows_all_trials_or_one_kind() -> None:
    counts = pd.DataFrame({"kind": ["kills", "examples"], "what": ["x", "y"], "count": [3, 5]})
    assert faults.trials_shown(counts, 7, "all")["table"]["times"].tolist() == [3, 5, 7]
    assert faults.trials_shown(counts, 7, "examples")["table"].iloc[:, :2].to_numpy().tolist() == [["bad input", "y"]]
    assert faults.trials_shown(counts, 7, "shards")["table"]["trial"].tolist() == ["merge"]


def test_a_page_names_the_file_of_a_test_once() -> None:
    listed = pd.DataFrame(
        {"number": [1], "fault": ["x"], "tests": ["tests/a.py::test_b tests/a.py::test_c tests/d.py"]}
    )
    found = faults.faults_shown(listed)
    assert found["formats"]["tests"](found["table"]["tests"][0]) == "a.py, d.py"


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"date": 1}', '{"kills": {"a": "many"}}'])
def test_other_files_are_no_figures(tmp_path, content) -> None:
    if content is not None:
        (tmp_path / "figures.json").write_text(content)
    with pytest.raises(DataError, match="make test-slow"):
        figures(tmp_path)
