import numpy as np
import pytest

from rbp.core.errors import DataError
from rbp.ladder import shipping


def test_counts_survive_the_file(tmp_path):
    shipping.count_tokens(np.array([[0, 2], [2, 2]], dtype=np.uint16), 4).to_csv(
        tmp_path / shipping.COUNTS, index=False
    )
    assert shipping.read_token_counts(tmp_path).tolist() == [1, 0, 3, 0]


def test_the_projects_own_count_is_of_its_training_text():
    import json

    from rbp.core.paths import LADDER

    rows = json.loads((LADDER / "text.json").read_text())["rows"]
    counts = shipping.read_token_counts()
    assert len(counts) == 4096
    # a row of the context's tokens has one more: what the last one is to foretell
    assert counts.sum() == rows["tokens"] + rows["rows"]


def test_a_gap_is_refused(tmp_path):
    (tmp_path / shipping.COUNTS).write_text("token,count\n0,1\n2,1\n")
    with pytest.raises(DataError, match="numbered from 0"):
        shipping.read_token_counts(tmp_path)
