import numpy as np
import pytest
from made_grid import SIZES as RUNGS
from made_grid import additive, make
from toy_stores import write_store

from companion.chapters.appendix.ladder import compare_architectures, fit_ladder
from companion.chapters.families import reruns
from rbp.laws.power import fit_power_law
from rbp.measurements import open_source

SIZES = {"a": 1000, "b": 4000, "c": 16000, "d": 64000}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """A folder with the ranks of four sizes on two texts, the smallest size with two seeds."""
    folder, rng = tmp_path_factory.mktemp("ranks"), np.random.default_rng(1)
    for dataset in ("wikipedia", "humaneval"):
        ease = np.repeat(rng.normal(0, 0.3, 4), 200)
        for model, size in {**SIZES, "a-seed1": 1000}.items():
            drawn = np.exp(ease + rng.normal(1.8 - 0.3 * np.log(size / 1000) / np.log(4), 1.5, 800))
            write_store(folder, model, size, np.minimum(drawn, 48).astype(int), dataset=dataset)
    return folder


def test_a_folder_of_stores_is_studied(ranks):
    found = fit_ladder(open_source(ranks), [], [1, 5], [0.5])
    assert [one.dataset for one in found.texts] == ["wikipedia", "humaneval"]
    assert found.shown == {1: "1", 5: "5", 25: "0.5 V"}
    assert set(found.points.model) == set(SIZES)  # the other seed is no point of the law
    at_5 = found.at(found.laws).query("threshold == '5' and dataset == 'humaneval'").iloc[0]
    own = found.points.query("k == 5 and dataset == 'humaneval'")
    by_hand = fit_power_law(own["size"], own["value"])
    assert (at_5.alpha, at_5.alpha_low, at_5.n) == pytest.approx((by_hand.alpha, by_hand.alpha_low, 4))
    assert (found.splits.seed_df == 1).all()
    only = fit_ladder(open_source(ranks), ["humaneval"], [1], [])
    assert [one.dataset for one in only.texts] == ["humaneval"]


def test_what_was_trained_again_stands_beside_its_first_training(ranks):
    source = open_source(ranks)
    table = reruns(source.counts([1, 5]), 5).set_index("dataset")
    assert {*table.index} == {"wikipedia", "humaneval"}
    assert {*zip(table.model, table["first"], strict=True)} == {("a-seed1", "a")}
    shares = {(store.dataset, store.model): (store.ranks()["greater"] < 5).mean() for store in source.stores}
    for dataset, row in table.iterrows():
        first, again = (np.log(-np.log(shares[dataset, model])) for model in ("a", "a-seed1"))
        assert row.difference == pytest.approx(100 * (again - first))
        assert row.low < row.difference < row.high


def test_the_difference_of_exponents_is_that_of_the_laws():
    steeper = lambda size, tokens, k=1: additive(size, tokens, k) * (size / 1e5) ** -0.02  # noqa: E731
    texts = make({"neox": additive, "lstm": steeper})
    texts = [text.keep(~text.models["model"].str.contains("lstm-22k|lstm-2.7m")) for text in texts]
    found = compare_architectures(texts, "lstm", [1, 10])
    ranks = found.dropna(subset="k")
    assert ranks.n.unique() == [5]
    assert ranks.difference.to_numpy() == pytest.approx(0.02, abs=1e-4)
    assert (ranks.low <= 0.0201).all()
    assert (ranks.high >= 0.0199).all()
    assert (ranks.high - ranks.low < 0.005).all()  # the documents are the same for both
    five = np.array([size for rung, size in RUNGS.items() if rung not in ("22k", "2.7m")])
    by_hand = -np.polyfit(np.log(five), np.log(additive(five, 8e6)), 1)[0]
    assert ranks.query("k == 1").alpha_transformer.to_numpy() == pytest.approx(by_hand, abs=2e-3)
