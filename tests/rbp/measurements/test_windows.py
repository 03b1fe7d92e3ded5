"""Windows of tokens that all succeed: against a walk through the text, and errors against texts drawn anew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import chain, rows

from rbp.errors import DataError
from rbp.measurements.ranked import WINDOW_LENGTHS, Ranked
from rbp.measurements.windows import filled, runs_alive, share_error, window_counts


def brute(hits, documents, positions, n):
    """Stretch by stretch, window by window."""
    stretches, last = [], None
    for row in zip(hits, documents, positions, strict=True):
        if last is None or row[1] != last[1] or row[2] != last[2] + 1:
            stretches.append([])
        stretches[-1].append(row[0])
        last = row
    windows = [s[i : i + n] for s in stretches for i in range(len(s) - n + 1)]
    return sum(map(all, windows)), len(windows)


@given(
    st.lists(st.lists(st.tuples(st.booleans(), st.sampled_from([1, 1, 1, 2])), max_size=12), min_size=1, max_size=4),
    st.integers(1, 6),
)
def test_windows_are_those_of_a_walk_through_the_text(texts, n):
    """Documents of any length, with gaps in their positions."""
    hits = [hit for text in texts for hit, _ in text]
    documents = np.repeat(np.arange(len(texts)), list(map(len, texts)))
    positions = [place for text in texts for place in np.cumsum([step for _, step in text])]
    found = window_counts(np.array(hits), documents, np.array(positions), [n]).iloc[0]
    assert (found["successes"], found["windows"]) == brute(hits, documents, positions, n)


def test_a_store_gives_the_windows_of_its_table(store):
    ranked = Ranked(store)
    places = ranked.tokens["document"].tolist(), ranked.tokens["position"].tolist()
    for k, own in ranked.windows().groupby("k"):
        expected = [brute((ranked.ranks <= k).tolist(), *places, n) for n in WINDOW_LENGTHS]
        found = own[["successes", "windows"]].itertuples(index=False, name=None)
        assert list(found) == [each for each in expected if each[1]]
        assert own["p"].tolist() == [good / all_ for good, all_ in expected if all_]


def test_runs_are_counted_from_windows():
    good = np.zeros((1, 400), dtype=bool)
    good[0, 10:125] = True  # one run of 115
    good[0, 200:260] = True  # and one of 60
    found = window_counts(*rows(good), [1, 50, 100, 200]).assign(dataset="d", model="m", k=1)
    alive = runs_alive(found).set_index("n")["runs"]
    assert (alive[50], alive[100]) == pytest.approx(((11 + 50) / 50, 16 / 100))


def test_filling_in_is_exact_for_independent_tokens():
    n = [1, 2, 5, 10]
    curve = filled(n, [round(1e12 * 0.5**m) for m in n], longest=20)
    assert curve == pytest.approx(1e12 * 0.5 ** np.arange(1, 21), rel=1e-6)
    assert filled([1, 3], [8, 0], longest=4) == pytest.approx([8, 4, 0, 0])
    assert filled([1], [5], longest=3) == pytest.approx([5, 5, 5])  # nothing tells how it goes on


@pytest.mark.parametrize(("n", "successes"), [([1, 2], [3, 4]), ([1, 3, 2], [4, 3, 2]), ([2, 3], [4, 3])])
def test_counts_that_rise_are_not_filled_in(n, successes):
    with pytest.raises(DataError, match="must ascend from 1, and successes must not rise"):
        filled(n, successes)


@pytest.mark.parametrize(("hit", "stay"), [(0.5, 0.5), (0.6, 0.85), (0.97, 0.98)])
def test_the_error_is_that_of_texts_drawn_anew(hit, stay):
    """Independent tokens, and chains: never too small by much, and at most twice too large."""
    rng = np.random.default_rng(7)
    found = [window_counts(*chain(rng, 100, 200, hit, stay), [1, 2, 5, 10]) for _ in range(100)]
    shares = np.array([each["successes"] / each["windows"] for each in found])
    said = np.array([share_error(each["n"], each["successes"], each["windows"]) for each in found])
    ratio = np.median(said, axis=0) / (shares.std(axis=0) / shares.mean(axis=0))
    assert (ratio > 0.8).all()
    assert (ratio < 2.1).all()
