"""The one door: what is published, a table of one's own, several sources; and what none of these is."""

import numpy as np
import pandas as pd
import pytest

from rbp.errors import DataError, ParameterError
from rbp.measurements import open_source

OWN = pd.DataFrame(
    {
        "dataset": "mine",
        "model": ["a", "b", "a", "b"],
        "family": "letters",
        "size": [10, 20, 10, 20],
        "metric": ["neg_log_rbp", "neg_log_rbp", "cross_entropy", "cross_entropy"],
        "k": pd.array([1, 1, None, None], dtype="Int64"),
        "value": [0.5, 0.4, 2.0, 1.8],
    }
)


@pytest.fixture
def write(tmp_path):
    def write(table, name="own.csv"):
        path = tmp_path / name
        table.to_parquet(path) if name.endswith("parquet") else table.to_csv(path, index=False)
        return path

    return write


@pytest.mark.parametrize("name", ["own.csv", "own.parquet"])
def test_own_file(write, name):
    shuffled = OWN.iloc[[3, 0, 2, 1]].astype({"k": "float64"})  # as pandas writes whole numbers with gaps
    own = open_source(write(shuffled, name))
    pd.testing.assert_frame_equal(own.table[list(OWN.columns)], OWN, check_dtype=False)
    assert own.table["tokens"].isna().all()
    assert str(own.table["k"].dtype) == "Int64"
    counted = OWN.iloc[:2].assign(tokens=1000, hits=[600, 700])
    rounded = counted.assign(value=-np.log(counted["hits"] / 1000).round(6))
    assert open_source(write(rounded)).table["hits"].tolist() == [600, 700]
    with pytest.raises(DataError, match=r"value is not −ln\(hits/tokens\).*line 2"):
        _ = open_source(write(counted)).table


@pytest.mark.parametrize(
    ("table", "words", "name", "place"),
    [
        (OWN.assign(value=[0.5, None, 2.0, 1.8]), "value is empty", "own.csv", ", line 3"),
        (OWN.assign(value=[0.5, -0.1, 2.0, 1.8]), "value -0.1 must not be negative", "own.parquet", ", row 2"),
        (OWN.assign(size=[10, 20, 10, 30]), "b is given as letters of size 20 and as", "own.csv", ", line 5"),
        (OWN.iloc[:2].assign(tokens=10, hits=11), "more hits than tokens", "own.csv", ", line 2"),
        (pd.concat([OWN, OWN.iloc[2:3]]), "repeats row 3", "own.parquet", ", row 5"),  # no k: the same measurement
    ],
)
def test_what_a_file_must_not_hold_is_named_with_its_place(write, table, words, name, place):
    with pytest.raises(DataError, match=rf"{words}.*{name}{place}"):
        _ = open_source(write(table, name)).table


def test_unreadable_files(tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DataError, match=r"as Parquet.*broken\.parquet"):
        _ = open_source(broken).table
    with pytest.raises(ParameterError, match="unknown source"):
        open_source(tmp_path / "table.xlsx")


def test_several_sources(write):
    path = write(OWN)
    both = open_source(["published", path])
    assert open_source(f"published, {path}").name == both.name == f"published, {path}"
    assert len(both.table) == len(open_source("published").table) + len(OWN)
    assert [part.is_only("published") for part in (both, *both.parts)] == [False, True, False]
    other = write(OWN.iloc[:1], "other.csv")
    with pytest.raises(DataError, match=r"−ln RBP_1 of a on mine is in two sources.*own\.csv and .*other\.csv"):
        _ = open_source([path, other]).table
