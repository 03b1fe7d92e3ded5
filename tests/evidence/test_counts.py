import numpy as np
import pandas as pd
import pytest
from simulated import chain, rows

from rbp.core.errors import DataError
from rbp.evidence.tokens import published_windows
from rbp.stats.windows import filled, runs_alive, share_error, window_counts, with_error


@pytest.fixture(scope="module")
def counts():
    return published_windows()


def test_every_published_share_is_a_whole_number_of_windows(counts):
    pythia = counts[counts["basis"] == "recovered"]
    assert len(pythia) == 720
    totals = pythia.groupby("n")["windows"].unique()
    assert all(len(each) == 1 for each in totals)
    # Every document is longer than ten tokens, so each length takes one window a document: what is no part of the
    # recovery, which treats each length on its own.
    assert [totals[1][0] - totals[n][0] for n in (2, 5, 10)] == [1000, 4000, 9000]
    from rbp.evidence import published

    read = published.sequence_success().sort_values(["model", "k", "n"])["p_success"].to_numpy()
    ours = pythia.sort_values(["model", "k", "n"])["p"].to_numpy()
    assert ours == pytest.approx(read, abs=1.2e-6)


def test_single_tokens_are_those_of_the_other_figures(counts):
    from rbp.evidence.tokens import recovered_tokens

    other = recovered_tokens([("wikipedia", "Pythia")])["tokens"].iloc[0]
    assert set(counts.query("family == 'Pythia' and n == 1")["windows"]) == {other}


def test_gpt2_counts_are_as_published(counts):
    row = counts.query("model == 'openai-community/gpt2' and k == 1 and n == 100").iloc[0]
    assert (row["successes"], row["windows"], row["basis"]) == (16, 224617, "counted")


def test_successes_never_rise_with_the_length(counts):
    change = counts.sort_values("n").groupby(["model", "k"])["successes"].diff().dropna()
    assert (change <= 0).all()


def test_runs_are_counted_from_windows():
    good = np.zeros((1, 400), dtype=bool)
    good[0, 10:125] = True  # one run of 115
    good[0, 200:260] = True  # and one of 60
    found = window_counts(*rows(good), [1, 50, 100, 200]).assign(dataset="d", model="m", k=1)
    alive = runs_alive(found).set_index("n")["runs"]
    assert alive[50] == pytest.approx((11 + 50) / 50)
    assert alive[100] == pytest.approx(16 / 100)


def test_filling_in_is_exact_for_independent_tokens():
    n = [1, 2, 5, 10]
    curve = filled(n, [round(1e12 * 0.5**m) for m in n], longest=20)
    assert curve == pytest.approx(1e12 * 0.5 ** np.arange(1, 21), rel=1e-6)
    assert filled([1, 3], [8, 0], longest=4) == pytest.approx([8, 4, 0, 0])
    with pytest.raises(DataError, match="must not rise"):
        filled([1, 2], [3, 4])


def test_one_token_has_its_binomial_error():
    n = np.arange(1, 30)
    error = share_error(n, np.rint(1e9 * 0.3**n), np.full(n.size, 10**9))[0]
    assert error == pytest.approx(np.sqrt(0.7 / 0.3 / 1e9), rel=1e-6)


@pytest.mark.parametrize(("hit", "stay"), [(0.5, 0.5), (0.6, 0.85), (0.97, 0.98)])
def test_the_error_is_that_of_texts_drawn_anew(hit, stay):
    """Independent tokens, and chains: never too small by much, and at most twice too large."""
    rng = np.random.default_rng(7)
    lengths = [1, 2, 5, 10]
    found = [window_counts(*chain(rng, 40, 500, hit, stay), lengths) for _ in range(150)]
    shares = np.array([each["successes"] / each["windows"] for each in found])
    true = shares.std(axis=0) / shares.mean(axis=0)
    said = np.array([share_error(each["n"], each["successes"], each["windows"]) for each in found])
    ratio = np.median(said, axis=0) / true
    assert (ratio > 0.8).all()
    assert (ratio < 2.1).all()


def test_no_success_has_no_error():
    table = pd.DataFrame({"n": [1, 10], "successes": [5, 0], "windows": [100, 91]}).assign(dataset="d", model="m", k=1)
    assert with_error(table)["error"].tolist()[1] == np.inf
