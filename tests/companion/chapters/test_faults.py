"""The survey of architectures has no wrong rank."""

import pandas as pd

from companion.chapters.appendix import ranking
from companion.chapters.appendix.ranking import architectures, by_outcome


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
    assert ranking.outcomes(table) == {"families": 4, "models": 5, "tokens": 110} | counts
