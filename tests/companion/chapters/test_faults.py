"""The list of faults names tests that there are; the survey of architectures has no wrong rank."""

import ast

import pandas as pd

from companion.chapters.appendix import ranking
from companion.chapters.appendix.ranking import architectures, by_outcome
from companion.project import ROOT


def listed_faults() -> pd.DataFrame:
    return pd.read_csv(ROOT / "data" / "faults" / "faults.csv")


def test_every_test_that_is_named_is_there() -> None:
    table = listed_faults()
    assert table["number"].tolist() == list(range(1, 26))
    for name in " ".join(table["tests"]).split():
        file, _, test = name.partition("::")
        assert (ROOT / file).is_file(), name
        if test:
            tree = ast.parse((ROOT / file).read_text())
            assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name


def test_no_architecture_is_ranked_wrongly() -> None:
    table = architectures()
    assert set(table["outcome"]) <= {"exact", "refused", "not built"}
    grouped = by_outcome(table)
    assert grouped["models"].sum() == len(table)
    assert grouped["outcome"].iloc[0] == "exact"


def test_outcomes_are_counted() -> None:
    rows = [("a", "exact", 10, 1), ("a", "exact", 20, 2), ("b", "wrong", 40, 4), ("c", "not built", 0, 0)]
    rows += [("d", "exact", 80, 0)]
    table = pd.DataFrame(rows, columns=["model", "outcome", "tokens", "near"])
    counts = {"exact": 3, "wrong": 1, "refused": 0, "not_built": 1}
    assert ranking.outcomes(table) == {"families": 4, "models": 5, "tokens": 110} | counts
