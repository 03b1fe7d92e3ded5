import numpy as np
import pandas as pd
import pytest
from toy_stores import make_store

from rbp.core.errors import DataError
from rbp.evidence import open_source
from rbp.evidence.ranked import Ranked
from rbp.paper import independence
from rbp.paper.independence import at_largest, dependence


def test_what_a_store_says_is_what_the_functions_say(store):
    found = dependence([store], [1, 2])
    windows = Ranked(store).windows().query("k == 2 and n <= 5")
    p = found.query("k == 2 and quantity == 'p' and x <= 5")
    assert p["value"].to_numpy() == pytest.approx(windows["p"].to_numpy())
    ratio = found.query("k == 2 and quantity == 'ratio' and x == 5")["value"].iloc[0]
    one, five = windows.query("n == 1")["p"].iloc[0], windows.query("n == 5")["p"].iloc[0]
    assert ratio == pytest.approx(np.log(five) / (5 * np.log(one)))
    assert set(found["size"]) == {1000}
    assert (dependence([store], [1, 2])["low"].dropna() == found["low"].dropna()).all()


def test_intervals_are_by_documents(tmp_path):
    """Half the documents hit always, half one time in four: what is drawn decides, and the tokens' number does not."""
    rng = np.random.default_rng(0)
    hit = rng.random((60, 50)) < np.where(np.arange(60) % 2, 1.0, 0.25)[:, None]
    store = make_store(tmp_path / "s", np.where(hit.ravel(), 0, 5), [50] * 60)
    rows = dependence([store], [1]).set_index(["quantity", "x"])
    one = rows.loc[("p", 1.0)]
    width = (one["high"] - one["low"]) / (2 * 1.96)
    assert width == pytest.approx(0.375 / np.sqrt(60), rel=0.2)  # sd of a document's share over √60
    assert rows.loc["shared", "value"].iloc[0] == pytest.approx(0.14 / 0.234, rel=0.1)
    assert rows.loc["gain documents", "value"].iloc[0] > rows.loc["gain markov", "value"].iloc[0]


def test_thresholds_at_which_nothing_varies_are_left_out(tmp_path):
    store = make_store(tmp_path / "s", [0, 0, 3, 0], [4])
    with pytest.raises(DataError, match="no store has hits and misses"):
        dependence([store], [10])


def test_the_largest_model_has_a_row_for_each_text_and_threshold():
    rows = [
        ("humaneval", 9, 1, "shared", np.nan, 0.3),
        ("humaneval", 9, 1, "ratio", 10.0, 0.7),
        ("humaneval", 9, 1, "gain both", np.nan, 0.01),
        ("humaneval", 9, 1, "design effect", np.nan, 4.0),
        ("wikipedia", 9, 1, "shared", np.nan, 0.2),
        ("wikipedia", 5, 1, "shared", np.nan, 0.9),
    ]
    table = pd.DataFrame(rows, columns=["dataset", "size", "k", "quantity", "x", "value"])
    found = at_largest(table.assign(low=table["value"] / 2, high=table["value"] * 2))
    assert found["dataset"].tolist() == ["wikipedia", "humaneval"]
    assert found["shared"].tolist() == [0.2, 0.3]
    assert found.loc[1, "gain both"] == 0.01
    assert found.loc[1, ["design effect", "effect low", "effect high"]].tolist() == [4.0, 2.0, 8.0]
    assert found.loc[0, ["design effect", "gain both"]].isna().all()


def test_the_ladder_comes_from_its_step_only_where_that_has_these_k_and_this_level(monkeypatch):
    made = pd.DataFrame({"k": [1, 10, 100], "quantity": "p"})
    monkeypatch.setattr("rbp.book.steps.table", lambda name: made)
    monkeypatch.setattr(independence, "dependence", lambda stores, k, level: f"computed at {level}")
    ladder = open_source("ladder")
    assert independence.dependence_of(ladder, [1, 100])["k"].tolist() == [1, 100]
    assert independence.dependence_of(ladder, [1], level=0.9) == "computed at 0.9"
    assert independence.dependence_of(ladder, [1, 2]) == "computed at 0.95"
