"""Cross-entropy beside −ln RBP_k: against the printed Table 1 and against closed forms."""

import numpy as np
import pandas as pd
import pytest
from own_sources import stores

from companion.chapters.cross_entropy import exponents
from companion.chapters.cross_entropy.exponents import (
    by_text,
    exponents_by_document,
    pair_metrics,
    paired_table,
    printed_differences,
    printed_told,
)
from rbp.errors import DataError
from rbp.laws.power import fit_power_law
from rbp.measurements import open_source


@pytest.fixture(scope="module")
def pairs():
    return pair_metrics(open_source("published").table)


def test_published_pairs_are_wikipedia_of_two_families(pairs):
    assert pairs.groupby(["dataset", "family"]).size().to_dict() == {
        ("wikipedia", "GPT-2"): 4,
        ("wikipedia", "Pythia"): 10,
    }


def test_a_family_too_small_is_named_not_dropped(pairs):
    table = paired_table(pairs[(pairs.family == "Pythia") | (pairs["size"] < 4e8)])
    gpt2 = table[table.family == "GPT-2"].iloc[0]
    assert np.isnan(gpt2.difference)
    assert "too few" in gpt2.note
    with pytest.raises(DataError, match="both metrics at three sizes"):
        paired_table(pairs[(pairs.family == "GPT-2") & (pairs["size"] < 4e8)])


def test_the_difference_is_the_slope_of_the_ratio(pairs):
    row = paired_table(pairs).set_index("family").loc["Pythia"]
    own = pairs[pairs.family == "Pythia"]
    assert row.difference == pytest.approx(fit_power_law(own["size"], own.cross_entropy / own.neg_log_rbp).alpha)
    assert row.relative == pytest.approx(100 * (row.alpha_first / row.alpha_second - 1))


def test_a_pair_is_near_where_its_whole_interval_is():
    """On exponents of 0.1 and 0.1·(1 + d), with little scatter, and with much."""
    rng, sizes = np.random.default_rng(1), np.geomspace(1e6, 1e9, 8)
    parts = []
    for family, d, scatter in (("near", 0.02, 1e-3), ("more", 0.3, 1e-3), ("less", -0.3, 1e-3), ("wild", 0.02, 0.1)):
        values = {
            "cross_entropy": 9 * sizes ** (-0.1 * (1 + d)) * np.exp(rng.normal(0, scatter, 8)),
            "neg_log_rbp": 2 * sizes**-0.1 * np.exp(rng.normal(0, scatter, 8)),
        }
        parts.append(pd.DataFrame({"dataset": "d", "family": family, "model": range(8), "size": sizes} | values))
    found = paired_table(pd.concat(parts)).set_index("family")
    assert found.verdict.to_dict() == {"near": "near", "more": "outside", "less": "outside", "wild": "not decided"}
    assert found.relative["more"] == pytest.approx(30, abs=1)
    assert found.relative["less"] == pytest.approx(-30, abs=1)
    assert exponents.tests_shown(found.reset_index(), 1, 0.95)["table"]["verdict"].tolist() == found["verdict"].tolist()
    told = exponents.tests_told(found.reset_index(), printed_differences())
    assert [told[key] for key in ("tested", "near", "outside")] == [4, 1, 2]


def documents(rng, count=60, models=5):
    """Tokens, losses and hits of documents that are harder or easier for all models, and somewhat for each."""
    sizes = np.geomspace(1e4, 1e6, models)
    tokens = rng.integers(200, 2000, count)
    hard = rng.normal(0, 0.3, count)[:, None] + rng.normal(0, 0.1, (count, models))
    losses = tokens[:, None] * 9 * sizes**-0.08 * np.exp(0.4 * hard)
    hits = rng.binomial(tokens[:, None], np.exp(-3 * sizes**-0.1 * np.exp(hard)))
    return sizes, tokens, losses, hits


def slopes(sizes, tokens, losses, hits):
    line = [np.polyfit(np.log(sizes), np.log(y), 1)[0] for y in (losses / tokens, -np.log(hits / tokens))]
    return -np.array(line)


def test_the_covariance_by_document_is_that_of_corpora_drawn_anew():
    """Against the bootstrap of one corpus, and against the spread over independent corpora."""
    rng = np.random.default_rng(2)
    sizes, tokens, losses, hits = documents(rng)
    found = exponents_by_document(sizes, tokens, losses, hits)
    times = rng.multinomial(60, np.full(60, 1 / 60), 3000)
    drawn = [slopes(sizes, w @ tokens, w @ losses, w @ hits) for w in times]
    assert found == pytest.approx(60 / 59 * np.cov(np.transpose(drawn)), rel=0.15)
    corpora = [documents(rng) for _ in range(400)]
    spread = np.cov(np.transpose([slopes(s, t.sum(), x.sum(0), h.sum(0)) for s, t, x, h in corpora]))
    mean = np.mean([exponents_by_document(*corpus) for corpus in corpora], axis=0)
    assert mean == pytest.approx(spread, rel=0.25)


def test_documents_count_where_every_model_of_a_pair_has_ranks(tmp_path):
    stores(tmp_path / "ranks", models=4, documents=20)
    source = open_source([tmp_path / "ranks", "published"])
    pairs = pair_metrics(source.table, k=5)
    text = by_text(source.ranked.stores, pairs, 5)
    ((dataset, family),) = text
    assert text[dataset, family][1] == 19
    tests = paired_table(pairs, text=text).set_index(["dataset", "family"])
    own = tests.loc[(dataset, family)]
    assert own.text_low < own.difference < own.text_high
    assert tests.drop(index=(dataset, family)).text_low.isna().all()
    with_fewer = by_text(source.ranked.stores[:-1], pairs, 5)
    assert with_fewer == {}
    stores(tmp_path / "one", models=4, documents=1)
    one = open_source(tmp_path / "one")
    assert by_text(one.ranked.stores, pair_metrics(one.table), 1) == {}


def test_no_model_with_both_metrics():
    table = open_source("published").table
    with pytest.raises(DataError, match="both its cross-entropy"):
        pair_metrics(table[table.metric == "neg_log_rbp"])
    with pytest.raises(DataError, match="RBP_3 "):
        pair_metrics(table[(table.metric == "cross_entropy") | (table.k == 1)], k=3)


def test_tries_do_not_pass_as_ranks(pairs):
    """−ln pass@1 of the same models, and averages without a k, change no pair."""
    table = open_source("published").table
    tries = table[table.k.eq(1).fillna(False)].assign(metric="neg_log_pass", value=9.0)
    averages = table[table.metric == "cross_entropy"].assign(metric="entropy", value=9.0)
    pd.testing.assert_frame_equal(pair_metrics(pd.concat([table, tries, averages])), pairs)


def test_printed_differences_of_cells_looked_up_by_hand():
    table = printed_differences()
    assert len(table) == 24 * 6
    at = table.set_index(["dataset", "family", "k"])
    assert at.loc[("wikipedia", "Pythia", 1), "difference"].item() == 0.008  # 0.087 − 0.079
    assert at.loc[("pile-github", "GPT-2", 1), "difference"].item() == -0.049  # 0.027 − 0.076
    assert not table[table.k == 1].within.any()
    first = at.loc[("wikipedia", "Pythia", 1)]
    ends = [100 * (0.0865 / 0.0795 - 1), 100 * (0.087 / 0.079 - 1), 100 * (0.0875 / 0.0785 - 1)]
    assert first[["relative_low", "relative", "relative_high"]].tolist() == pytest.approx(ends)


def test_what_table_1_says_is_counted_by_hand():
    """Of eight cells with differences of 0, ±10 … per cent, and with R² that is higher for either."""
    rbp = pd.Series([0.1] * 8)
    ce = pd.Series([0.1, 0.101, 0.109, 0.091, 0.111, 0.119, 0.13, 0.07])
    r = pd.Series([0.99] * 8)
    rows = {"dataset": list("abcdefgh"), "family": "f", "k": 1, "alpha_ce": ce, "alpha_rbp": rbp}
    rows |= {"r_squared_ce": r, "r_squared_rbp": r + np.array([0, 0.005, -0.01, -0.02, 0.009, 0.008, 0.007, 0.004])}
    table = pd.DataFrame(rows).assign(difference=ce - rbp, relative=100 * (ce / rbp - 1))
    table = table.assign(within=table.difference.abs() <= 0.0010001)
    table[["relative_low", "relative_high"]] = np.column_stack([table.relative - 1.5, table.relative + 1.5])
    told = printed_told(table)
    counts = ("cells", "within_tenth", "within_fifth", "tenth_least", "tenth_most")
    assert [told[f"printed_{name}"] for name in counts] == [8, 4, 6, 2, 5]
    assert told["printed_r_squared_comparable"] == 7
    tests = pd.DataFrame({"dataset": ["a", "mine"], "family": "f", "difference": 0.1, "verdict": "outside"})
    tests[["relative", "relative_low", "relative_high"]] = 9.0
    assert told["printed_r_squared_apart.cell"] == "f on d"
    assert told["printed_relative.b.f"] == pytest.approx(1)
    own = exponents.tests_told(tests.assign(size_min=1, size_max=2), table)
    assert (own["table1.tested"], own["table1.outside"]) == (1, 1)  # another family is no evidence on the paper's
