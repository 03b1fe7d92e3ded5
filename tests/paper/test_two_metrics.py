"""Cross-entropy beside −ln RBP_k: against the printed Table 1 and against closed forms."""

import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import DataError
from rbp.evidence import open_source, published
from rbp.paper.two_metrics import (
    closeness_by_k,
    crossing_k,
    order_disagreements,
    pair_metrics,
    paired_table,
    printed_differences,
)


@pytest.fixture(scope="module")
def pairs():
    return pair_metrics(open_source("published").table)


def test_published_pairs_are_wikipedia_of_two_families(pairs):
    assert pairs.groupby(["dataset", "family"]).size().to_dict() == {
        ("wikipedia", "GPT-2"): 4,
        ("wikipedia", "Pythia"): 10,
    }


def test_paired_exponents_round_to_the_printed_slopes(pairs):
    printed = published.table1().query("dataset == 'wikipedia'")
    for row in paired_table(pairs).itertuples():
        own = printed[printed.family == row.family]
        assert round(-row.alpha_first, 3) == own.loc[own.metric == "cross_entropy", "slope"].item()
        assert round(-row.alpha_second, 3) == own.loc[own.k == 1, "slope"].item()
        assert row.difference == pytest.approx(row.alpha_first - row.alpha_second)


def test_a_family_too_small_is_named_not_dropped(pairs):
    table = paired_table(pairs[(pairs.family == "Pythia") | (pairs["size"] < 4e8)])
    gpt2 = table[table.family == "GPT-2"].iloc[0]
    assert np.isnan(gpt2.difference)
    assert "too few" in gpt2.note


def test_no_model_with_both_metrics():
    table = open_source("published").table
    with pytest.raises(DataError, match="both its cross-entropy"):
        pair_metrics(table[table.metric == "neg_log_rbp"])
    with pytest.raises(DataError, match="RBP_3 "):
        pair_metrics(table[(table.metric == "cross_entropy") | (table.k == 1)], k=3)


def test_printed_differences_of_cells_looked_up_by_hand():
    table = printed_differences()
    assert len(table) == 24 * 6
    at = table.set_index(["dataset", "family", "k"])
    assert at.loc[("wikipedia", "Pythia", 1), "difference"].item() == 0.008  # 0.087 − 0.079
    assert at.loc[("pile-github", "GPT-2", 1), "difference"].item() == -0.049  # 0.027 − 0.076
    assert not table[table.k == 1].within.any()


def test_within_rounding_and_closeness():
    cells = [("a", 1, 0.100), ("a", 10, 0.151), ("b", 1, 0.120), ("b", 10, 0.101)]
    table = pd.DataFrame(cells, columns=["dataset", "k", "alpha_rbp"]).assign(family="f", alpha_ce=0.1)
    table["difference"] = table.alpha_ce - table.alpha_rbp
    near = closeness_by_k(table).set_index("k")
    assert near.closest.to_dict() == {1: 1, 10: 1}
    assert near.mean_distance.to_dict() == pytest.approx({1: 0.01, 10: 0.026})


def test_crossing_is_logarithmic_in_k_and_missing_where_there_is_none():
    assert crossing_k([1, 100], [0.1, 0.2], 0.15) == pytest.approx(10)
    assert np.isnan(crossing_k([1, 10, 100], [0.1, 0.15, 0.2], 0.05))


def test_orders_that_disagree(pairs):
    table = order_disagreements(pairs)
    assert len(table) == 14 * 13 // 2
    assert not table[table.same_family].disagree.any()
    odd = {tuple(sorted(pair)) for pair in table.loc[table.disagree, ["first", "second"]].to_numpy().tolist()}
    assert ("EleutherAI/pythia-70m", "openai-community/gpt2") in odd
