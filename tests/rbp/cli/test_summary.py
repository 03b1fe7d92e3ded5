"""`rbp ranks summary`: its measures by hand, what it says in words, and rows of k that no token meets."""

import io
import math

import numpy as np
import pandas as pd
import pytest
from commands import here, refused
from scipy import stats
from toy_stores import make_store

from rbp.measurements import open_source

LENGTHS = (30, 30, 25, 35, 20, 40, 30, 30, 30, 30)


def summary(store, *options):
    done = here("ranks", "summary", str(store.folder), *options)
    assert done.returncode == 0, done.stderr
    return pd.read_csv(io.StringIO(done.stdout)), done.stderr


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    greater, nll = rng.geometric(0.1, 300) - 1, rng.exponential(2, 300)
    return make_store(tmp_path_factory.mktemp("summary") / "m", greater, LENGTHS, token=np.arange(300), nll=nll)


def by_document(store, statistic):
    """A mean over tokens, and Student's interval of the jackknife over documents, by a loop."""
    tokens = store.ranks()
    column = statistic(tokens["greater"] + tokens["equal"], tokens["nll"].astype(float))
    without = np.array([column[tokens["document"] != out].mean() for out in range(10)])
    sizes = np.array(LENGTHS)
    half = stats.t.ppf(0.975, sizes.sum() ** 2 / (sizes**2).sum() - 1) * math.sqrt(9 * without.var())
    return column.mean(), column.mean() - half, column.mean() + half


def test_measures_of_all_ranks_have_intervals_by_documents(store):
    row = summary(store, "--intervals")[0].set_index("metric").loc["cross_entropy"]
    for name, statistic in {
        "mrr": lambda rank, nll: 1 / rank,
        "mean_log_rank": lambda rank, nll: np.log(rank),
        "perplexity": lambda rank, nll: nll,
    }.items():
        expected = np.array(by_document(store, statistic))
        expected = np.exp(expected) if name == "perplexity" else expected
        assert row[[name, f"{name}_low", f"{name}_high"]].tolist() == pytest.approx(expected, rel=1e-6)
    assert row["perplexity"] == pytest.approx(math.exp(row["value"]))
    assert row["document_low"] < row["value"] < row["document_high"]


def test_documents_have_rows_of_their_own(store):
    rows, _ = summary(store, "--by", "document", "--k", "10")
    tokens = store.ranks().assign(rank=lambda table: table["greater"] + table["equal"])
    assert rows["tokens"].tolist() == list(LENGTHS)
    for row in rows.itertuples():
        own = tokens[tokens["document"] == row.document]
        assert row.perplexity == pytest.approx(math.exp(own["nll"].astype(float).mean()))
        assert (row.rbp_10, row.mrr) == pytest.approx(((own["rank"] <= 10).mean(), (1 / own["rank"]).mean()))
    refused(here("ranks", "summary", str(store.folder), "--by", "token"), "no rows by token", "--by")


def test_a_k_that_no_token_meets_has_a_row(tmp_path):
    """It is inf, of no hits; what is written is read back, without such rows."""
    store, out = make_store(tmp_path / "m", np.full(60, 30), [20] * 3, token=np.arange(60)), tmp_path / "table.csv"
    rows, _ = summary(store, "--k", "1,10,50", "--intervals")
    none = rows[rows["hits"] == 0]
    assert none["k"].tolist() == [1, 10]
    assert np.isinf(none["value"]).all()
    assert none["low"].tolist() == pytest.approx([-math.log(1 - 0.025 ** (1 / 60))] * 2)  # no hit in 60
    here("ranks", "summary", str(store.folder), "--k", "1,10,50", "--out", str(out))
    assert open_source(out).table["k"].dropna().tolist() == [50]


@pytest.mark.parametrize(("tied", "alike"), [(2, 0), (30, 6), (300, 300)])
def test_ties_and_constant_models_are_said(tmp_path, tied, alike):
    """Above 1% of tokens that tie, RBP_1 by both rules; where all logits are equal, the model is called constant."""
    equal = np.ones(300, dtype=int)
    equal[:tied] = 3
    equal[:alike] = 100
    store = make_store(tmp_path / "m", np.zeros(300, dtype=int), LENGTHS, token=np.arange(300), equal=equal)
    said = summary(store, "--tie-rule", "strict")[1]
    assert (f"{tied / 300:.1%} of the tokens score the same as others" in said) == (tied > 3)
    assert (f"RBP_1 is {1 - tied / 300:.4f} to 1.0000" in said) == (tied > 3)
    constant = "every token" if alike == 300 else f"{alike} of 300 tokens"
    assert (f"constant at {constant}" in said) == (alike > 0)
