"""Hits: of any ranks, against a count one by one; kept as a table; some models, budgets and documents of them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from toy_stores import make_store, write_store

from rbp.errors import DataError
from rbp.laws.resampling import interval
from rbp.measurements import open_source
from rbp.measurements.counts import count_hits, from_table, of_stores, store_table, to_table
from rbp.measurements.ranked import Ranked


def test_stores_of_other_tokens_are_not_counted_together(tmp_path):
    stores = [write_store(tmp_path, name, 10, np.arange(8), token=i) for i, name in enumerate("ab")]
    with pytest.raises(DataError, match="did not rank the same tokens"):
        of_stores(stores, [1])


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3), st.integers(0, 5)), max_size=30),
    st.sets(st.integers(1, 10), min_size=1),
)
def test_any_ranks_are_counted_as_one_by_one(rows, ks):
    ranks, cells, tokens = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    found = count_hits(ranks, cells, 4, sorted(ks), tokens)
    by_hand = [[sum(n for r, c, n in rows if c == cell and r <= k) for k in sorted(ks)] for cell in range(4)]
    assert found.tolist() == by_hand


@pytest.mark.long
@pytest.mark.parametrize(("rule", "more"), [("paper", 2), ("expected", 1.5)])
def test_stores_are_counted_by_document_model_and_threshold(tmp_path, rule, more):
    rng = np.random.default_rng(1)
    greater = {name: rng.integers(0, 45, 100) for name in ("big", "small", "small-seed1")}
    sizes = {"big": 300, "small": 20, "small-seed1": 20}
    stores = {name: write_store(tmp_path, name, sizes[name], greater[name], nll=sizes[name]) for name in greater}
    (found,) = of_stores([*stores.values()], [30, 1, 5], rule)
    assert (found.names, found.thresholds) == (["small", "small-seed1", "big"], (1, 5, 30))
    (same,) = open_source(tmp_path, rule).counts([30, 1, 5])
    np.testing.assert_array_equal(same.hits, found.hits)
    assert found.tokens.tolist() == [25] * 4
    assert found.firsts.tolist() == [0, 2]
    assert found.nll.tolist() == [[500, 500, 7500]] * 4
    for m, name in enumerate(found.names):
        ranks = greater[name] + np.where(np.arange(100) < 2, more, 1)  # of the two tokens that have an equal
        for i, k in enumerate(found.thresholds):
            by_hand = [int((ranks[25 * d : 25 * d + 25] <= k).sum()) for d in range(4)]
            assert found.hits[:, m, i].tolist() == by_hand
        table, own = store_table(Ranked(stores[name], rule), [1, 5, 30]), found.keep([m]).table()
        pd.testing.assert_frame_equal(table.drop(columns="source"), own)
        hits = own.dropna(subset="k").set_index("k")["hits"]
        assert hits.to_dict() == {k: n for k, n in zip((1, 5, 30), found.hits[:, m].sum(axis=0), strict=True) if n}
        assert own.set_index("metric").loc["cross_entropy", "value"] == sizes[name]


def test_a_repeated_opening_counts_once_in_intervals_of_documents_of_their_lengths(tmp_path):
    """Brute force, of four documents: the second begins as the first for three tokens, and the last is the third's."""
    token = np.array([7, 8, 9, 10, 7, 8, 9, 30, 31, 32, 33, 34, 35, 36, 40, 41, 40, 41])
    documents, again = np.repeat([0, 1, 2, 3], [4, 10, 2, 2]), np.isin(np.arange(18), [4, 5, 6, 16, 17])
    ranks = np.random.default_rng(0).integers(1, 9, 18)
    store = make_store(tmp_path / "s", ranks - 1, [4, 10, 2, 2], token=token)
    (counts,) = of_stores([store], [4])
    (kept,) = from_table(to_table([counts]))
    for one in (counts, kept):
        left = one.left_out()
        assert one.documents == 3
        assert one.neg_log_rbp[0, 0] == pytest.approx(-np.log((ranks <= 4).mean()), rel=1e-12)
        others = [~again & (documents != each) for each in range(3)]
        shares = np.array([(ranks <= 4).mean(), *((ranks[other] <= 4).mean() for other in others)])
        y = np.log(-np.log(shares))
        assert left.at(4)[:, 0] == pytest.approx(y, rel=1e-12)
        lengths = np.array([4, 7, 2])
        half = stats.t.ppf(0.975, lengths.sum() ** 2 / (lengths**2).sum() - 1) * np.sqrt(2 * y[1:].var())
        low, high = interval(left.at(4), left.df)[1:]
        assert [low[0], high[0]] == pytest.approx([y[0] - half, y[0] + half], rel=1e-12)
