import numpy as np
import pandas as pd
import pytest
from toy_stores import make_store

from rbp.core.errors import DataError
from rbp.paper.noise import aligned, by_training_count, clustering_table, group_rates, pieces, threshold_for

LENGTHS = [60] * 30


def two(tmp_path, first, second):
    make = {"vocabulary": 100}
    return [
        make_store(tmp_path / "a", first, LENGTHS, model="toy/a", size=1000, **make),
        make_store(tmp_path / "b", second, LENGTHS, model="toy/b", size=2000, **make),
    ]


@pytest.fixture
def stores(tmp_path):
    rng = np.random.default_rng(3)
    first = rng.integers(0, 100, 1800)
    second = np.where(rng.random(1800) < 0.5, first, rng.integers(0, 100, 1800))
    return two(tmp_path, first, second)


def test_misses_are_counted_and_compared(stores):
    found = clustering_table(stores, [0.1])
    assert found["what"].tolist() == ["misses", "misses", "difference", "misses", "difference"]
    assert found["model"].isna().tolist() == [False, False, False, True, True]
    one, other, pair, both = (found.iloc[i] for i in range(4))
    _, ranks = aligned(stores)
    k = int(one["k"])
    missed = ranks > k
    assert missed.mean() <= 0.1
    assert (ranks > k - 1).mean() > 0.1
    assert one["misses"] == missed[:, 0].sum() == pair["misses"]
    assert other["misses"] == missed[:, 1].sum() == pair["other_misses"]
    assert pair["shared"] == missed.all(axis=1).sum()
    assert pair["effect"] == pytest.approx(1, abs=0.6)
    assert one["documents"] == 30
    assert both["effect"] == pytest.approx(np.sqrt(one["effect"] * other["effect"]))
    assert found["effect"].between(found["effect_low"], found["effect_high"]).all()
    assert one[["effect", "effect_low"]].tolist() == one[["effect_pieces", "effect_pieces_low"]].tolist()  # short texts


def test_three_models_have_scatter_about_a_line(tmp_path):
    rng = np.random.default_rng(5)
    made = [
        make_store(tmp_path / f"{i}", rng.integers(0, 100, 1800), LENGTHS, model=f"toy/{i}", size=10**i, vocabulary=100)
        for i in (3, 4, 5)
    ]
    row = clustering_table(made, [0.1]).iloc[-1]
    assert row["what"] == "scatter"
    assert row["effect_low"] < 1 < row["effect_high"]  # independent tokens, independent models


def test_a_document_that_one_model_misses_shows_in_the_effect(tmp_path):
    first = np.zeros(1800, dtype=int)
    first[::17] = 50
    second = first.copy()
    second[600:660] = 90
    found = clustering_table(two(tmp_path, first, second), [0.04])
    pair = found[(found["what"] == "difference") & found["model"].notna()].iloc[0]
    assert pair["effect"] > 20
    assert pair["z"] > 6
    assert pair["z_documents"] < 1.5


def test_pieces_do_not_cross_documents():
    places = pd.DataFrame({"document": [0, 0, 0, 1, 1], "position": [1, 2, 3, 1, 2]})
    assert pieces(places, 2).tolist() == [0, 1, 1, 2, 3]


def test_classes_of_training_counts_hold_every_token_once(stores):
    counts = np.arange(100) * 37
    found = by_training_count(stores, counts, [0.1], (0, 1, 100, 1000))
    first = found[found["model"] == "toy/a"]
    assert first["tokens"].sum() == 1800
    assert first["share_of_misses"].sum() == pytest.approx(1)
    places, ranks = aligned(stores)
    chosen = (counts[places["token"]] >= 100) & (counts[places["token"]] < 1000)
    row = first[first["low"] == 100].iloc[0]
    assert (row["high"], row["tokens"]) == (999, chosen.sum())
    assert row["misses"] == (ranks[chosen, 0] > row["k"]).sum()


def test_the_threshold_leaves_the_rate_above_it():
    assert threshold_for(np.arange(1, 1001), 0.1) == 900
    assert threshold_for([1, 1, 1], 0.5) == 1


def test_models_must_have_ranked_the_same(tmp_path):
    a = make_store(tmp_path / "a", [0, 1, 2, 3], [4], model="toy/a")
    b = make_store(tmp_path / "b", [0, 1, 2, 3], [2, 2], model="toy/b")
    with pytest.raises(DataError, match="did not rank the same tokens"):
        aligned([a, b])


def test_groups_hold_their_classes_and_the_ends(stores):
    table = by_training_count(stores, np.arange(100) * 37, [0.1])
    found = group_rates(table).set_index("group")
    assert found["tokens"].sum() == 1800
    assert found["share_of_tokens"].sum() == pytest.approx(1)
    assert found["share_of_misses"].sum() == pytest.approx(1)
    places, ranks = aligned(stores)
    chosen = places["token"].to_numpy() * 37 >= 1000
    k = table["k"].iloc[0]
    row = found.loc["a thousand times or more"]
    assert row["smallest"] == pytest.approx((ranks[chosen, 0] > k).mean())
    assert row["largest"] == pytest.approx((ranks[chosen, 1] > k).mean())
