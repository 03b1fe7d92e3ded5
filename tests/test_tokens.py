import numpy as np
import pandas as pd
import pytest

from rbp import checks, counts, published, tokens


@pytest.fixture(scope="module")
def found():
    return tokens.recovered_tokens().set_index(["dataset", "family"])


def test_exact_counts_are_recovered_without_being_used(found):
    exact = found.dropna(subset="exact")
    assert exact["tokens"].tolist() == exact["exact"].tolist() == [317_414]
    assert exact["basis"].tolist() == ["counted"]


def test_one_tokenizer_gives_one_number_of_short_documents(found):
    # OPT took over the tokenizer of GPT-2, and no HotpotQA pair is cut at 512 tokens
    assert found.loc[("hotpotqa", "OPT"), "tokens"] == found.loc[("hotpotqa", "GPT-2"), "tokens"] == 24_141


def test_figure_5_sharpens_what_the_other_figures_say(found):
    table = published.rbp()
    families = published.models().set_index("model")["family"]
    others = table[(table["dataset"] == "wikipedia") & (table["model"].map(families) == "OPT")]
    others = others[others["source"] != "figure 5"]
    without = counts.recover_tokens(
        others["neg_log_rbp"], relative_error=counts.READING_ERROR, candidates=np.arange(200_000, 511_001)
    )
    row = found.loc[("wikipedia", "OPT")]
    assert row["tokens"] == without.tokens
    assert row["margin"] > without.margin + 5


def test_what_is_not_identified_says_so(found):
    assert (found["basis"] == "likely").sum() == 5
    assert (found.loc["auslegal", "basis"] == "likely").all()
    assert (found["tokens"] <= found["bound"]).all()
    assert found.loc["humaneval", "gap"].isna().all()  # the protocol excludes half a million there
    assert (found["gap"].dropna() > 0).all()


def test_the_histogram_gives_the_same_number(found):
    bins = tokens.tokens_of_bins()
    assert bins["identified"].all()
    assert ((found.loc[("wikipedia", "Pythia"), "tokens"] - bins["tokens"]).between(-0.5, 5)).all()


def test_every_check_passes_but_the_coarse_points_of_figure_6():
    table = checks.checks().set_index("check")
    assert table.loc["table_1", "compared"] == 96
    assert table.loc["exact_counts", "compared"] == 12
    failed = table["compared"] - table["agree"]
    # k = 10 000 is read from figure 7's linear axis
    assert failed[failed > 0].to_dict() == {"figure_6": 2}
    assert table.loc["figure_6", "worst"] < 5e-5


def test_a_wrong_number_fails_a_check(tmp_path):
    for file in published.FOLDER.glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    rbp = pd.read_csv(tmp_path / "rbp.csv")
    rbp.loc[(rbp["source"] == "figure 5").idxmax(), "neg_log_rbp"] *= 1.3
    rbp.to_csv(tmp_path / "rbp.csv", index=False)
    table = checks.checks(tmp_path).set_index("check")
    assert table.loc["figure_5", "agree"] < table.loc["figure_5", "compared"]
    rbp.loc[(rbp["source"] == "figure 3").idxmax(), "neg_log_rbp"] *= 1.01
    rbp.to_csv(tmp_path / "rbp.csv", index=False)
    assert checks.checks(tmp_path).set_index("check").loc["table_1", "agree"] < 96


def test_a_table_s_own_tokens_come_first(found):
    points = pd.DataFrame(
        {
            "dataset": ["wikipedia", "wikipedia", "mine", "hotpotqa"],
            "family": ["Pythia", "OPT", "Mine", "OPT"],
            "tokens": pd.array([1000, pd.NA, pd.NA, pd.NA], dtype="Int64"),
            "source": ["mine.csv", "figure 3", "mine.csv", "mine.csv"],
        }
    )
    behind = tokens.tokens_of_points(points, found.reset_index())
    assert list(behind.itertuples(index=False, name=None)) == [
        ("wikipedia", "OPT", 317_040, "recovered"),
        ("wikipedia", "Pythia", 1000, "counted"),
    ]
