import json

import numpy as np
import pytest
from made_ladder import quiet, write_making

from ladder import aggregates, floor, ngrams
from ladder.making import Making
from ladder.ranking import read_corpus
from ladder.text import read_tokenizer
from rbp.extract.entropies import Entropies
from rbp.extract.store import open_store, store_folders


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Making:
    """N-grams of orders 2 and 5, counted and ranked."""
    making = write_making(tmp_path_factory.mktemp("floor"))
    for order in (2, 5):
        floor.rank(quiet, making, order)
    return making


def test_the_ranks_of_the_longest_n_grams_are_kept_and_of_the_others_sums(made: Making) -> None:
    assert [job.name for job in floor.jobs(made)] == [f"ngrams-{n}-at-0.00256m" for n in (1, 3, 4)]
    stores = [open_store(path) for path in store_folders([made.place / "ranks"])]
    assert sorted((store.model, store.dataset) for store in stores) == [
        ("ngrams-5-at-0.00256m", "questions"),
        ("ngrams-5-at-0.00256m", "tales"),
    ]
    whole = aggregates.read(made.place / "aggregates" / "ngrams-5-at-0.00256m")
    for store in stores:
        ranks, own = store.ranks(), whole["counts"][whole["counts"]["dataset"] == store.dataset]
        counted = ranks.groupby(["document", "greater", "equal"], as_index=False).size()
        np.testing.assert_array_equal(counted, own[["document", "greater", "equal", "tokens"]])
        assert Entropies(store).entropy.shape == (len(ranks),)
        assert store.family == "ngrams"
        assert store.vocabulary == 280


def test_a_token_is_ranked_by_what_was_read_of_the_largest_budget(made: Making) -> None:
    (store,) = (
        each for path in store_folders([made.place / "ranks"]) if (each := open_store(path)).dataset == "questions"
    )
    read = made.place.rows(made.base)[: 2_560 // 32]  # 40 steps of two rows
    model = ngrams.count(read, 5, 280)
    assert (
        store.size
        == model.size
        == json.loads((made.place / "training" / "ngrams-5-at-0.00256m" / "run.json").read_text())["size"]
    )
    corpus, tokenizer, ranks = read_corpus(made.place, "questions"), read_tokenizer(made.place), store.ranks()
    for document in (0, 7):
        ids = np.array(tokenizer(corpus.documents[document])["input_ids"])
        own = ranks[ranks["document"] == document]
        assert own["token"].tolist() == ids[own["position"]].tolist()
        p = model.distributions(ids, own["position"].to_numpy())
        truth = p[np.arange(len(own)), own["token"]][:, None]
        np.testing.assert_array_equal(own["greater"], (p > truth).sum(1))
        np.testing.assert_array_equal(own["equal"], (p == truth).sum(1))
        np.testing.assert_allclose(own["nll"], -np.log(truth[:, 0]), rtol=1e-6)
