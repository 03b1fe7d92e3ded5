"""The counts in each summary are those of the table below it: recomputed here from the CSV that the page offers."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from companion import results
from companion.project import Project

Tables = Callable[[str], pd.DataFrame]


def _forecasts(table: Tables) -> dict[str, object]:
    every = table("every-cut")
    too_low = every["predicted"] < every["value"]
    inside = every["value"].between(every["low"], every["high"])
    cuts = every.assign(inside=inside, off=(every["predicted"] / every["value"] - 1).abs())
    cuts = cuts.groupby(["family", "hidden"]).agg(
        inside=("inside", "mean"), off=("off", "median"), score=("score", "mean")
    )
    counts = {"cuts.all.count": len(every), "cuts.all.optimistic": int(too_low.sum())}
    for hidden in (2, 6):
        own = (every["family"] == "Pythia") & (every["hidden"] == hidden)
        counts |= {f"cut.optimistic.Pythia.h{hidden}": int((own & too_low).sum())}
        counts |= {f"cut.count.Pythia.h{hidden}": int(own.sum())}
    counts |= {"cuts.covering": int((cuts["inside"] >= 0.9).sum()), "cuts.made": len(cuts)}
    counts |= {"cuts.near": int((cuts["off"] <= 0.05).sum())}
    bent = table("bent")
    counts |= {"bent.cells": len(bent), "bent.alarms_holm": int((bent["p_holm"] < 0.05).sum())}
    return counts | {"cuts.sharp": int((cuts["score"] <= 35).sum())}


def _cross_entropy(table: Tables) -> dict[str, object]:
    cells = table("printed-cells").query("k == 1")
    away = (cells["alpha_ce"] / cells["alpha_rbp"] - 1).abs()
    counts: dict[str, object] = {"printed_cells": len(cells), "printed_within_tenth": int((away <= 0.1 + 1e-9).sum())}
    paths = table("path-tests")
    holm = paths[paths["p_holm"] < 0.05]
    counts |= {f"path_tests.{name}": int((paths[p] < 0.05).sum()) for name, p in TESTS.items()}
    counts |= {"path_tests": len(paths)}
    counts |= {"path_tests.apart_input": int(holm["path"].isin(["replaced", "context"]).sum())}
    pairs = table("equal").query("k == 1")
    beyond = [(pairs[a] > 0) | (pairs[b] < 0) for a, b in (("low", "high"), ("text_low", "text_high"))]
    return counts | {"equal.texts.k1": len(pairs), "equal.texts_apart.k1": int((beyond[0] & beyond[1]).sum())}


TESTS = {"apart": "p", "apart_seeds": "p_training", "apart_holm": "p_holm"}


RECOUNTED = {"forecasts": _forecasts, "cross_entropy": _cross_entropy}


@pytest.mark.parametrize("chapter", RECOUNTED)
def test_the_counts_of_a_summary_are_those_of_its_table(book: Path, chapter: str) -> None:
    folder = Project().chapters / chapter
    recorded = results.merge([folder / "results.json"])[chapter]
    counts = RECOUNTED[chapter](lambda name: pd.read_csv(folder / chapter / f"{name}.csv"))
    assert {key: recorded[key].value for key in counts} == counts
