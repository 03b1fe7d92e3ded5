"""A family of small models on its rank stores: laws, intervals by documents, the split of the scatter, exponents."""

import numpy as np
import pandas as pd
import pytest
from made_grid import SIZES as RUNGS
from made_grid import additive, make
from toy_stores import write_store

from companion.chapters.appendix.ladder import compare_architectures, fit_ladder, split_scatter
from companion.chapters.families import compare_trainings
from rbp.laws.power import fit_power_law
from rbp.laws.resampling import without_each
from rbp.measurements import open_source

SIZES = np.array([10_000, 30_000, 100_000, 300_000, 1_000_000])


def test_a_folder_of_stores_is_studied(tmp_path):
    """Four sizes on two texts, the smallest size with two seeds."""
    rng, sizes = np.random.default_rng(1), {"a": 1000, "b": 4000, "c": 16000, "d": 64000}
    for dataset in ("wikipedia", "humaneval"):
        ease = np.repeat(rng.normal(0, 0.3, 4), 200)
        for model, size in {**sizes, "a-seed1": 1000}.items():
            drawn = np.exp(ease + rng.normal(1.8 - 0.3 * np.log(size / 1000) / np.log(4), 1.5, 800))
            write_store(tmp_path, model, size, np.minimum(drawn, 48).astype(int), dataset=dataset)
    source = open_source(tmp_path)
    found = fit_ladder(source, [], [1, 5], [0.5])
    assert [one.dataset for one in found.texts] == ["wikipedia", "humaneval"]
    assert found.shown == {1: "1", 5: "5", 25: "0.5 V"}
    assert set(found.points.model) == set(sizes)  # the other seed is no point of the law
    at_5 = found.at(found.laws).query("threshold == '5' and dataset == 'humaneval'").iloc[0]
    own = found.points.query("k == 5 and dataset == 'humaneval'")
    by_hand = fit_power_law(own["size"], own["value"])
    assert (at_5.alpha, at_5.alpha_low, at_5.n) == pytest.approx((by_hand.alpha, by_hand.alpha_low, 4))
    assert (found.splits.seed_df == 1).all()
    shares = {(store.dataset, store.model): (store.ranks()["greater"] < 5).mean() for store in source.stores}
    for row in compare_trainings(source.counts([1, 5]), 5).itertuples():
        assert (row.model, row.first) == ("a-seed1", "a")
        first, again = (np.log(-np.log(shares[row.dataset, model])) for model in ("a", "a-seed1"))
        assert row.difference == pytest.approx(100 * (again - first))
        assert row.low < row.difference < row.high


def test_the_difference_of_exponents_is_that_of_the_laws():
    steeper = lambda size, tokens, k=1: additive(size, tokens, k) * (size / 1e5) ** -0.02  # noqa: E731
    texts = make({"neox": additive, "lstm": steeper})
    texts = [text.keep(~text.models["model"].str.contains("lstm-22k|lstm-2.7m")) for text in texts]
    ranks = compare_architectures(texts, "lstm", [1, 10]).dropna(subset="k")
    assert ranks.n.unique() == [5]
    assert ranks.difference.to_numpy() == pytest.approx(0.02, abs=1e-4)
    assert ((ranks.low <= 0.0201) & (ranks.high >= 0.0199)).all()
    assert (ranks.high - ranks.low < 0.005).all()  # the documents are the same for both
    five = np.array([size for rung, size in RUNGS.items() if rung not in ("22k", "2.7m")])
    by_hand = -np.polyfit(np.log(five), np.log(additive(five, 8e6)), 1)[0]
    assert ranks.query("k == 1").alpha_transformer.to_numpy() == pytest.approx(by_hand, abs=2e-3)


def test_the_split_finds_known_components():
    """Of ln(−ln RBP_k), of models of which three sizes have three seeds."""
    repeats, documents = 400, 60
    rng, sizes = np.random.default_rng(9), np.repeat(SIZES, [3, 3, 3, 1, 1])
    shared = np.random.default_rng(8).normal(size=(len(sizes), len(sizes)))
    noise = 1e-4 * (0.5 * np.eye(len(sizes)) + shared @ shared.T / 30 + 1)  # the covariance of documents
    seed, lack = 2e-4, np.array([0.02, -0.03, 0.0, 0.01, 0.01])
    root, rows = np.linalg.cholesky(noise), []
    for _ in range(repeats):
        line = 1 - 0.1 * np.log(sizes) + lack[np.searchsorted(SIZES, sizes)]
        y = line + rng.normal(0, seed**0.5, len(sizes)) + root @ rng.normal(size=len(sizes))
        corpus = root @ rng.normal(size=(len(sizes), documents)) * documents**0.5  # a column a document
        means = without_each(corpus.T) / np.append(documents, np.full(documents, documents - 1))[:, None]
        rows.append(split_scatter(sizes, y + means - means[0]))
    found = pd.DataFrame(rows)
    x = np.column_stack([np.ones(5), np.log(SIZES)])
    residual = np.eye(5) - x @ np.linalg.solve(x.T @ x, x.T)
    first = [0, 3, 6, 9, 10]
    document = np.trace(residual @ noise[np.ix_(first, first)]) / 3
    for part, value in {"document": document, "seed": seed, "lack": lack @ residual @ lack / 3}.items():
        assert found[part].mean() == pytest.approx(value, abs=3.5 * found[part].std() / repeats**0.5), part
    assert found.total.to_numpy() == pytest.approx((found.document + found.seed + found.lack).to_numpy())
    assert 0.91 <= ((found.seed_low <= seed) & (found.seed_high >= seed)).mean() <= 0.99
