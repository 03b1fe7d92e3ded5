import pandas as pd
import pytest

from companion.evidence import published, tokens
from rbp.measurements import open_source

FAMILIES = ["GPT-2", "OPT", "Pythia", "Qwen2.5"]


@pytest.fixture(scope="module")
def found():
    """The numbers of tokens of some datasets and families: those of the others take longer."""
    small = [(dataset, family) for dataset in ("hotpotqa", "humaneval") for family in FAMILIES]
    large = [("auslegal", "OPT"), *(("wikipedia", family) for family in FAMILIES[:3])]
    return tokens.recovered_tokens([*small, *large]).set_index(["dataset", "family"])


def test_exact_counts_are_recovered_and_tokens_of_the_small_datasets_are_sure(found):
    exact = found.dropna(subset="exact")  # which is not used
    assert exact["tokens"].tolist() == exact["exact"].tolist() == [317_414]
    assert exact["basis"].tolist() == ["counted"]
    # OPT took over the tokenizer of GPT-2, and no HotpotQA pair is cut at 512 tokens
    known = {"hotpotqa": [24_141, 24_141, 24_782, 24_468], "humaneval": [42_400, 42_391, 33_233, 30_655]}
    for dataset, tokens_ in known.items():
        own = found.loc[dataset].loc[FAMILIES]
        assert own["tokens"].tolist() == tokens_
        assert (own["margin"] > 90).all()
    assert (found.loc["humaneval", "bound"] == 83_804).all()


def test_the_histogram_gives_the_same_number(found):
    bins = tokens.tokens_of_bins()
    assert bins["identified"].all()
    assert ((found.loc[("wikipedia", "Pythia"), "tokens"] - bins["tokens"]).between(-0.5, 5)).all()


def test_a_table_s_own_tokens_come_first(found):
    points = pd.DataFrame(
        {
            "dataset": ["wikipedia", "wikipedia", "mine", "hotpotqa", "humaneval", "humaneval"],
            "family": ["Pythia", "OPT", "Mine", "OPT", "Mine", "Mine"],
            "tokens": pd.array([1000, pd.NA, pd.NA, pd.NA, 10, 20], dtype="Int64"),
            "source": ["mine.csv", "figure 3", "mine.csv", "mine.csv", "mine.csv", "mine.csv"],
        }
    )
    expected = [("wikipedia", "OPT", 317_040, "recovered"), ("wikipedia", "Pythia", 1000, "counted")]
    behind = tokens.tokens_behind(points, found.reset_index())
    assert list(behind.itertuples(index=False, name=None)) == expected
    assert tokens.tokens_behind(points[points["dataset"] == "mine"]).empty


def test_an_unsure_number_is_a_bound_or_likely(found):
    points = pd.DataFrame({"dataset": ["auslegal"], "family": "OPT", "tokens": pd.NA, "source": "figure 4"})
    recovered = found.reset_index()
    assert tokens.tokens_behind(points, recovered).iloc[0].tolist()[2:] == [511_000, "at most"]
    assert tokens.tokens_behind(points, recovered, likely=True).iloc[0].tolist()[2:] == [499_464, "likely"]


def test_the_tokens_of_a_row_are_stated_or_found_or_unknown():
    table = open_source("published").table.query(
        "k == 1 and (dataset == 'wikipedia' or dataset == 'auslegal' and family == 'OPT')"
    )
    mine = table.query("family == 'Pythia'").assign(model=lambda t: "my-" + t["model"], source=None)
    counted = mine.assign(model=lambda t: "counted-" + t["model"], tokens=7)
    known = tokens.known_tokens(pd.concat([table, mine, counted], ignore_index=True))
    n = len(table)
    by_cell = known[:n].groupby([table["dataset"].to_numpy(), table["family"].to_numpy()]).first()
    assert by_cell["wikipedia"].dropna().to_dict() == {"GPT-2": 317_414, "OPT": 317_040, "Pythia": 317_684}
    assert known[:n][(table["dataset"] == "auslegal").to_numpy()].isna().all()
    assert known[n : n + len(mine)].isna().all()
    assert (known[n + len(mine) :] == 7).all()


def test_every_published_share_is_a_whole_number_of_windows(monkeypatch):
    shares = published.sequence_success().query("n <= 10")  # the longer ones take longer
    monkeypatch.setattr(published, "sequence_success", lambda *_: shares)
    pythia = tokens.published_windows().query("basis == 'recovered'")
    totals = pythia.groupby("n")["windows"].unique()
    assert all(len(each) == 1 for each in totals)
    # Every document is longer than ten tokens, so each length takes one window a document: what is no part of the
    # recovery, which treats each length on its own.
    assert [totals[1][0] - totals[n][0] for n in (2, 5, 10)] == [1000, 4000, 9000]
    read = shares.sort_values(["model", "k", "n"])["p_success"].to_numpy()
    ours = pythia.sort_values(["model", "k", "n"])["p"].to_numpy()
    assert ours == pytest.approx(read, abs=1.2e-6)
