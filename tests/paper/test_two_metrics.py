"""Cross-entropy beside −ln RBP_k: against the printed Table 1 and against closed forms."""

import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import DataError
from rbp.evidence import open_source, published
from rbp.paper.two_metrics import (
    beside_table_1,
    closeness_by_k,
    crossing_k,
    crossings,
    odd_pair,
    order_disagreements,
    pair_metrics,
    paired_table,
    printed_differences,
)
from rbp.stats.power_law import fit_power_law


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
    with pytest.raises(DataError, match="both metrics at three sizes"):
        paired_table(pairs[(pairs.family == "GPT-2") & (pairs["size"] < 4e8)])


def test_the_difference_moves_the_ratio_as_its_fitted_line_says(pairs):
    row = paired_table(pairs).set_index("family").loc["Pythia"]
    own = pairs[pairs.family == "Pythia"]
    ends = fit_power_law(own["size"], own.ratio).predict([row.size_min, row.size_max]).value.to_numpy()
    assert row.drift == pytest.approx(100 * (ends[1] / ends[0] - 1))
    assert row.relative == pytest.approx(100 * (row.alpha_first / row.alpha_second - 1))


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


def test_curves_of_figure_6_cross_the_printed_exponents():
    table = crossings(printed_differences()).set_index("dataset")
    exponents = published.fit_by_k().query("dataset == 'wikipedia'").set_index("k").slope
    assert -exponents[1] < 0.087 < -exponents[2]  # Table 1 prints −0.087 for the cross-entropy of Pythia on Wikipedia
    assert 1 < table.crossing["wikipedia"] < 2
    assert table.above["hotpotqa"]
    assert np.isnan(table.crossing["hotpotqa"])


def test_beside_table_1_counts_the_digits_that_agree(pairs):
    tests = paired_table(pairs)
    assert beside_table_1(tests, printed_differences()).agree.tolist() == [2, 2]
    off = tests.assign(alpha_second=tests.alpha_second + 0.001)
    assert beside_table_1(off, printed_differences()).agree.tolist() == [1, 1]
    assert beside_table_1(tests.assign(dataset="mine"), printed_differences()).empty


def test_orders_that_disagree(pairs):
    table = order_disagreements(pairs)
    higher, lower = odd_pair(pairs, table).itertuples()
    assert higher.cross_entropy > lower.cross_entropy
    assert higher.neg_log_rbp < lower.neg_log_rbp  # and yet the higher RBP
    assert higher.family != lower.family
    assert odd_pair(pairs, table[table.same_family]).empty
    assert len(table) == 14 * 13 // 2
    assert not table[table.same_family].disagree.any()
    odd = {tuple(sorted(pair)) for pair in table.loc[table.disagree, ["first", "second"]].to_numpy().tolist()}
    assert ("EleutherAI/pythia-70m", "openai-community/gpt2") in odd
