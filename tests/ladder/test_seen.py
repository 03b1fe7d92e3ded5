import numpy as np
import pytest

from rbp.core.errors import DataError
from rbp.ladder import shipping
from rbp.ladder.recipe import read_ladders


def test_counts_survive_the_file(tmp_path):
    shipping.count_tokens(np.array([[0, 2], [2, 2]], dtype=np.uint16), 4).to_csv(
        tmp_path / shipping.COUNTS, index=False
    )
    assert shipping.read_token_counts(tmp_path).tolist() == [1, 0, 3, 0]


def test_the_projects_own_count_is_of_what_the_families_read():
    counts = shipping.read_token_counts()
    assert len(counts) == 4096
    ladders, base = read_ladders()
    rows = ladders.steps(base, 8_000_000) * ladders.training.batch
    assert counts.sum() == rows * 257  # a row has one more token than it trains on: what the last is to foretell


def test_a_gap_is_refused(tmp_path):
    (tmp_path / shipping.COUNTS).write_text("token,count\n0,1\n2,1\n")
    with pytest.raises(DataError, match="numbered from 0"):
        shipping.read_token_counts(tmp_path)
