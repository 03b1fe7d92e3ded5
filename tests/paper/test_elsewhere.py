"""Made-up families beside one another, and tokens told apart in a made-up text."""

import numpy as np
import pandas as pd
import pytest
from made_grid import SIZES, additive, make
from rank_stores import write_store

from rbp.core.errors import DataError, ParameterError
from rbp.evidence.ranked import Ranked
from rbp.paper import elsewhere as study


def of_family(other):
    """Texts of which the LSTM has another law, on five of the seven rungs."""
    texts = make({"neox": additive, "lstm": other}, families=("neox", "lstm"))
    return [text.keep(~text.models["model"].str.contains("lstm-22k|lstm-2.7m")) for text in texts]


def test_the_difference_of_exponents_is_that_of_the_laws():
    texts = of_family(lambda size, tokens, k=1: additive(size, tokens, k) * (size / 1e5) ** -0.02)
    found = study.exponents_beside(texts, "lstm", [1, 10])
    ranks = found.dropna(subset="k")
    assert ranks.n.unique() == [5]
    assert ranks.difference.to_numpy() == pytest.approx(0.02, abs=1e-4)
    assert (ranks.low <= 0.0201).all()
    assert (ranks.high >= 0.0199).all()
    assert (ranks.high - ranks.low < 0.005).all()  # the documents are the same for both
    five = np.array([size for rung, size in SIZES.items() if rung not in ("22k", "2.7m")])
    by_hand = -np.polyfit(np.log(five), np.log(additive(five, 8e6)), 1)[0]
    assert ranks.query("k == 1").alpha_transformer.to_numpy() == pytest.approx(by_hand, abs=2e-3)


def test_at_equal_cross_entropy_the_offset_is_what_was_put_in():
    texts = make(families=("neox", "lstm"))
    for text in texts:
        own, tokens = (text.models["family"] == "lstm").to_numpy(), text.tokens[:, None, None]
        text.hits[:, own] = np.round(tokens * (text.hits[:, own] / tokens) ** 1.03)
    found = study.offsets(texts, "lstm", [1, 10])
    # of documents that differ, the share of all is not to the power of 1.03
    assert found.offset.to_numpy() == pytest.approx(3.0, abs=0.1)
    assert (found.low <= found.offset).all()
    assert (found.offset <= found.high).all()
    assert len(found) >= 4 * 2 * 5


def test_a_rung_and_a_threshold_that_are_not_there_are_named():
    texts = of_family(additive)
    study.check_rung(texts[0], ["lstm"], "59k")
    for rung in ("22k", "7k"):  # one that the LSTM lacks, one that nobody has
        with pytest.raises(ParameterError, match=f"no rung '{rung}'") as error:
            study.check_rung(texts[0], ["lstm"], rung)
        assert "There is: 10k, 59k, 150k, 390k, 1m." in str(error.value)
    with pytest.raises(ParameterError, match="not counted at k = 4"):
        study.exponents_beside(texts, "lstm", [4])


def test_too_few_shared_rungs_are_an_error():
    texts = make(families=("neox", "lstm"))
    few = [text.keep((text.models["family"] == "neox") | (text.sizes < 5e4)) for text in texts]
    with pytest.raises(DataError, match="2 rungs"):
        study.exponents_beside(few, "lstm", [1])
    with pytest.raises(ParameterError, match="family lstm is not there"):
        study.offsets(make(families=("neox",)), "lstm", [1])


def test_tokens_are_told_apart_by_what_was_read_and_when_the_pair_last_stood_there():
    #            pairs: (5 7) at position 2, again at 5 (three later) and in another document
    tokens = pd.DataFrame(
        {"document": [0] * 6 + [1] * 3, "position": [1, 2, 3, 4, 5, 90, 1, 2, 3], "token": [5, 7, 8, 5, 7, 7, 5, 7, 5]}
    )
    found = study.classes(tokens, np.array([0, 0, 0, 0, 0, 400, 0, 20_000, 2_000]))
    views = study.VIEWS
    since = [views["since"].labels[i] for i in found["since"]]
    assert since == ["never", "never", "never", "never", "<16", "never", "never", "never", "never"]
    assert [views["read"].labels[i] for i in found["read"]] == ["<16"] * 5 + ["64–255"] + ["<16"] * 3
    assert [views["seen"].labels[i] for i in found["seen"]][:3] == ["–1k", "–30k", "–3k"]


def test_one_model_ranks_better_where_it_was_made_so(tmp_path):
    first = write_store(tmp_path, "first", 1000, np.tile([0, 3], 80))
    better = np.tile([0, 3], 80)
    better[::40] = 5  # the first token of each document is missed now
    second = write_store(tmp_path, "second", 2000, better)
    found = study.by_token(Ranked(first), Ranked(second), np.zeros(50, dtype=int))
    read = found[found.view == "read"].set_index("kind")
    hits = [np.asarray(Ranked(store).ranks <= 1).reshape(4, 40) for store in (first, second)]
    for kind, part in {"<16": slice(0, 15), "16–63": slice(15, 40)}.items():
        own = [100 * each[:, part].mean() for each in hits]
        assert read.difference[kind] == pytest.approx(own[1] - own[0])
        assert read.low[kind] <= read.difference[kind] <= read.high[kind]
    assert read.difference["<16"] < 0 == read.difference["16–63"]
    assert read.documents.tolist() == [4, 4]
    assert set(found[found.view == "seen"].kind) == {"<300"}
    with pytest.raises(DataError, match="same tokens"):
        study.by_token(
            Ranked(first), Ranked(write_store(tmp_path, "third", 9, better, token=4)), np.zeros(50, dtype=int)
        )


def test_tie_rules_are_those_of_the_metric():
    sums = {"greater": [0, 0, 9], "equal": [1, 4, 1], "tokens": [5, 3, 2]}
    sums = pd.DataFrame({"model": "ngrams-2-at-8m", "dataset": "wikipedia", **sums})
    models = pd.DataFrame([{"model": "ngrams-2-at-8m", "family": "ngrams", "size": 7}])
    table = study.ties(models, sums, [1, 3])
    expected = {("paper", 1): 0.5, ("strict", 1): 0.8, ("expected", 1): 0.5, ("paper", 3): 0.5}
    expected |= {("expected", 3): 0.8, ("strict", 3): 0.8}
    assert table.set_index(["rule", "k"]).value.to_dict() == pytest.approx(expected)
    spread = study.spread_by_rule(table).iloc[0]
    assert (spread.tied, spread.moved) == pytest.approx((0.3, 0.3))
