"""Tables of ranks that other programs found; tests/rbp/laws/test_comparison.py compares one with its own store."""

import pandas as pd
import pytest
from commands import here

from rbp.errors import DataError, ParameterError
from rbp.measurements.engines import ImportLabels, import_ranks
from rbp.measurements.ranked import Ranked
from rbp.store import open_store, rename

VOCAB = 320
LABELS = {"model": "mine/tiny", "dataset": "held", "family": "tiny", "size": 1000}
LABELS |= {"vocabulary": VOCAB, "dtype": "float32", "tie_rule": "paper"}
TABLE = pd.DataFrame({"document": [0, 0], "position": [1, 2], "token": [5, 6], "rank": [1, 2], "nll": [0.1, 1.0]})


@pytest.fixture
def imported(tmp_path):
    """imported(table, …): the store of a file of these, in a folder of its own name."""

    def put(table, out="out", **labels):
        table.to_csv(tmp_path / "ranks.csv", index=False)
        return open_store(import_ranks(tmp_path / "ranks.csv", ImportLabels(**{**LABELS, **labels}), tmp_path / out))

    return put


def test_no_other_tie_rule_is_read(imported, tmp_path):
    strict = imported(TABLE, tie_rule="strict")
    assert Ranked(strict, "strict").rbp(VOCAB) == 1
    with pytest.raises(ParameterError, match="under the tie rule strict, and are asked for under paper") as refused:
        Ranked(strict)
    advised = refused.value.remedy.partition(": rbp ")[2].replace("table.csv", str(tmp_path / "table.csv")).split()
    assert here(*advised, root=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (TABLE.drop(columns="rank"), "column rank is missing"),
        (TABLE.assign(position=1), "the row repeats line 2"),
        (TABLE.assign(rank=[1, 0]), "0 is no rank among 320 .*line 3"),
        (TABLE.assign(nll=[0.1, -0.5]), "no logarithm"),
        (TABLE.assign(rank=[1, 3]), "cannot have"),
        (TABLE.assign(nll=[9.0, 1.0]), "the likeliest of 320 tokens cannot"),
        (TABLE.assign(rank=1, nll=[5.5, 5.5]).loc[[0, 1] * 2].assign(position=[1, 2, 3, 4]), "all 4 ranks are 1"),
    ],
)
def test_tables_that_are_not_whole(imported, tmp_path, table, says):
    with pytest.raises(DataError, match=says):
        imported(table)
    assert not (tmp_path / "out").exists()


def test_one_file_under_two_names_is_two_stores(imported):
    one, other = imported(TABLE), imported(TABLE, model="mine/other")
    assert one.folder == imported(TABLE).folder != other.folder
    rename(one.folder, {"model": "mine/renamed"})
    with pytest.raises(DataError, match="the model mine/renamed, not mine/tiny"):
        imported(TABLE)
