import pandas as pd
import pytest

from companion.evidence import tokens

FAMILIES = ["GPT-2", "OPT", "Pythia", "Qwen2.5"]


@pytest.fixture(scope="module")
def found():
    """The numbers of tokens of some datasets and families: those of the others take longer."""
    large = [("auslegal", "OPT"), ("wikipedia", "GPT-2"), ("wikipedia", "Pythia")]
    return tokens.recovered_tokens([*(("humaneval", family) for family in FAMILIES), *large])


def test_exact_counts_are_recovered_and_tokens_of_the_small_datasets_are_sure(found):
    exact = found.dropna(subset="exact")  # which is not used
    assert exact["tokens"].tolist() == exact["exact"].tolist() == [317_414]
    assert exact["basis"].tolist() == ["counted"]
    own = found[found["dataset"] == "humaneval"]
    assert own["tokens"].tolist() == [42_400, 42_391, 33_233, 30_655]  # OPT took over the tokenizer of GPT-2
    assert (own["bound"] == 83_804).all()


def test_a_table_s_own_tokens_come_first(found):
    points = pd.DataFrame(
        {
            "dataset": ["wikipedia", "humaneval", "mine", "wikipedia", "humaneval", "humaneval"],
            "family": ["Pythia", "OPT", "Mine", "GPT-2", "Mine", "Mine"],
            "tokens": pd.array([1000, pd.NA, pd.NA, pd.NA, 10, 20], dtype="Int64"),
            "source": ["mine.csv", "figure 3", "mine.csv", "mine.csv", "mine.csv", "mine.csv"],
        }
    )
    expected = [("humaneval", "OPT", 42_391, "recovered"), ("wikipedia", "Pythia", 1000, "counted")]
    behind = tokens.tokens_behind(points, found)
    assert list(behind.itertuples(index=False, name=None)) == expected
    assert tokens.tokens_behind(points[points["dataset"] == "mine"]).empty


def test_an_unsure_number_is_a_bound_or_likely(found):
    points = pd.DataFrame({"dataset": ["auslegal"], "family": "OPT", "tokens": pd.NA, "source": "figure 4"})
    assert tokens.tokens_behind(points, found).iloc[0].tolist()[2:] == [511_000, "at most"]
    assert tokens.tokens_behind(points, found, likely=True).iloc[0].tolist()[2:] == [499_464, "likely"]
