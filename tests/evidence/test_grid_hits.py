"""The grid's hits, of three models on five tokens, counted by hand."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import DataError
from rbp.evidence import grid

VOCABULARY = 10
#: by model: of each token its document, how many score higher, how many the same (itself included), and −ln p
TOKENS = {
    "toy-1k": [(0, 0, 1, 0.5), (0, 0, 1, 0.25), (0, 3, 1, 2.0), (7, 1, 2, 1.0), (7, 9, 1, 4.0)],
    "toy-4k": [(0, 0, 1, 0.5), (0, 0, 2, 0.5), (0, 1, 1, 1.0), (7, 1, 1, 1.0), (7, 4, 1, 2.0)],
    "toy-9k": [(0, 0, 1, 0.1)] * 3 + [(7, 0, 1, 0.1)] * 2,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = [
        {
            "name": name,
            "family": "toy",
            "rung": name[4:],
            "seed": 0,
            "size": 1000 * int(name[4]),
            "budget": 8_000_000,
            "tokens": 8_000_000,
            "parameters": 10,
            "seconds": 1,
            "cpu_seconds": 1,
            "tokens_per_second": 1,
            "processors": ["x"],
            "vocabulary": VOCABULARY,
            "ranked": True,
        }
        for name in TOKENS
    ]
    (tmp_path / "families.json").write_text(json.dumps(records))
    rows = [
        {"model": model, "dataset": "news", "document": document, "greater": greater, "equal": equal}
        | {"tokens": 1, "nll": nll, "entropy": 2 * nll}
        for model, tokens in TOKENS.items()
        for document, greater, equal, nll in tokens
    ]
    table = pd.DataFrame(rows)
    (tmp_path / "families-sums" / "toy").mkdir(parents=True)
    for name, columns in grid.TABLES.items():
        keys = ["model", "dataset", *(column for column in columns if column in ("document", "greater", "equal"))]
        sums = table.groupby(keys)[[column for column in columns if column not in keys]].sum().reset_index()
        sums.to_parquet(tmp_path / "families-sums" / "toy" / f"{name}.parquet")
    return tmp_path


def test_hits_by_document_model_and_threshold(folder: Path) -> None:
    (one,) = grid.counted([2, 5, 1], folder=folder)  # in any order
    assert (one.dataset, one.thresholds, one.tokens.tolist()) == ("news", (1, 2, 5), [3, 2])
    # ranks, counting all of an equal score: 1 1 4 | 3 10, then 1 2 2 | 2 5, then 1 everywhere
    assert one.hits[0].tolist() == [[2, 2, 3], [1, 3, 3], [3, 3, 3]]
    assert one.hits[1].tolist() == [[0, 0, 1], [0, 1, 2], [2, 2, 2]]
    assert one.nll.tolist() == [[2.75, 2.0, pytest.approx(0.3)], [5.0, 3.0, pytest.approx(0.2)]]
    assert one.entropy == pytest.approx(2 * one.nll)
    (strict,) = grid.counted([1, 2, 5], rule="strict", folder=folder)
    # ranks, counting what scores higher: 1 1 4 | 2 10, then 1 1 2 | 2 5
    assert strict.hits[:, :2].tolist() == [[[2, 2, 3], [2, 3, 3]], [[0, 1, 1], [0, 1, 2]]]


def test_a_threshold_of_the_whole_vocabulary_is_met_by_every_token(folder: Path) -> None:
    (one,) = grid.counted([VOCABULARY - 1, VOCABULARY], folder=folder)
    assert one.hits.sum(axis=0).tolist() == [[4, 5], [5, 5], [5, 5]]


def test_rows_of_the_measurement_table(folder: Path) -> None:
    table = grid.measurements(folder=folder)
    at_2 = table[table["k"] == 2].set_index("model")
    assert at_2["hits"].to_dict() == {"toy-1k": 2, "toy-4k": 4, "toy-9k": 5}
    assert at_2["value"].tolist() == pytest.approx([-np.log(2 / 5), -np.log(4 / 5), 0])
    entropy = table[table["metric"] == "cross_entropy"].set_index("model")
    assert entropy["value"].to_dict() == pytest.approx({"toy-1k": 7.75 / 5, "toy-4k": 1.0, "toy-9k": 0.1})


def test_tables_that_count_other_tokens_are_refused(folder: Path) -> None:
    path = folder / "families-sums" / "toy" / "counts.parquet"
    counts = pd.read_parquet(path)
    counts.assign(tokens=counts["tokens"] + (counts.index == 0)).to_parquet(path)
    with pytest.raises(DataError, match="the tables do not fit together on news"):
        grid.counted([1], folder=folder)
