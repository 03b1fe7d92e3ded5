import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import DataError
from rbp.evidence.tokens import published_windows
from rbp.paper.independence import by_size, closest, extrapolations, ratio_by_length, ratios
from rbp.stats.hit_models import beta_binomial, markov

LENGTHS = np.array([1, 2, 5, 10, 50, 100])


def table(neg_log_of, sizes=(10**6, 10**7, 10**8, 10**9), windows=10**15):
    """Counts of models for whom −ln p(n) = neg_log_of(n, size)."""
    parts = []
    for size in sizes:
        p = np.exp(-neg_log_of(LENGTHS, size))
        rows = {"model": f"m{size}", "size": size, "n": LENGTHS, "windows": windows}
        parts.append(pd.DataFrame({**rows, "successes": np.rint(windows * p).astype(np.int64)}))
    return pd.concat(parts, ignore_index=True).assign(dataset="wikipedia", family="Toy", k=1)


def single(size):
    return 0.3 * (size / 1e6) ** -0.1


def test_independent_tokens_have_the_ratio_one_at_every_size():
    counts = table(lambda n, size: n * single(size))
    found = ratios(counts)
    assert found["ratio"].to_numpy() == pytest.approx(1, rel=1e-3)
    assert found["effective"].to_numpy() == pytest.approx(found["n"].to_numpy(), rel=1e-3)
    assert found["log10_gain"].to_numpy() == pytest.approx(0, abs=3e-3)
    assert by_size(counts)["difference"].abs().max() < 1e-3


def test_a_chain_has_the_ratio_of_its_closed_form():
    counts = table(lambda n, size: markov(n, np.exp(-single(size)), np.exp(-single(size) / 3)))
    found = ratio_by_length(ratios(counts)).set_index("n")
    assert found.loc[100, "ratio"] == pytest.approx((1 + 99 / 3) / 100, rel=1e-3)
    assert found.loc[100, "effective"] == pytest.approx(34, rel=1e-3)


def test_a_change_with_size_is_seen():
    counts = table(lambda n, size: n * single(size) * np.where(n > 1, (size / 1e6) ** -0.05, 1))
    found = by_size(counts)
    assert found["difference"].to_numpy() == pytest.approx(np.full(len(found), 0.05), abs=1e-3)
    assert (found["low"] > 0).all()
    assert found["alpha_single"].to_numpy() == pytest.approx(np.full(len(found), 0.1), abs=1e-3)


def test_windows_without_success_give_a_bound_only():
    counts = table(lambda n, size: n * single(size), windows=1000)
    found = ratios(counts)
    none = found[found["successes"] == 0]
    assert len(none)
    assert none["ratio"].isna().all()
    assert none["ratio_low"].to_numpy() == pytest.approx(np.log(1000) / (none["n"] * none["single"]).to_numpy())
    assert set(ratio_by_length(found)["n"]).isdisjoint(none["n"])
    assert set(by_size(counts)["n"]).isdisjoint(none["n"])


def test_single_tokens_are_needed():
    counts = table(lambda n, size: n * single(size))
    with pytest.raises(DataError, match="windows of one token"):
        ratios(counts[counts["n"] > 1])


def test_the_law_that_made_the_counts_predicts_long_windows():
    counts = table(lambda n, size: beta_binomial(n, 3 / 3.5, 1 / 4.5), sizes=(10**6,))
    found = extrapolations(counts)
    at_100 = found[found["n"] == 100].set_index("law")
    assert at_100.loc["beta-binomial", "factor"] == pytest.approx(1, rel=1e-3)
    assert at_100.loc["beta-binomial", "correlation"] == pytest.approx(1 / 4.5, rel=1e-2)
    assert at_100.loc["markov", "factor"] > 1.2
    # equation 6 takes the single token alone
    assert at_100.loc["independence", "predicted"] == pytest.approx(-100 * np.log(3 / 3.5), rel=1e-6)
    assert at_100.loc["independence", "log10_factor"] < 0


def test_the_closest_law_is_undecided_where_two_are_as_close():
    rows = [("a", "markov", 1.3, ""), ("a", "beta-binomial", 1.2, ""), ("a", "renewed", 1.2, "beta-binomial")]
    rows += [("b", "markov", 1.3, ""), ("b", "beta-binomial", 1.1, ""), ("b", "renewed", 1 / 1.1 + 1e-12, "")]
    found = pd.DataFrame(rows, columns=["model", "law", "factor", "edge"]).assign(k=1)
    assert closest(found).to_dict() == {("a", 1): "beta-binomial", ("b", 1): "undecided"}


def test_published_windows_are_far_from_independent():
    found = ratio_by_length(ratios(published_windows().query("family == 'Pythia'")))
    at = found.set_index(["k", "n"])["ratio"]
    assert at[1, 10] == pytest.approx(0.592, abs=5e-4)
    assert (at < 1).all()
