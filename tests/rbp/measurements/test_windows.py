"""Windows of tokens that all succeed: against a walk through the text."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from toy_stores import make_store

from rbp.measurements.ranked import WINDOW_LENGTHS, Ranked
from rbp.measurements.windows import window_counts


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


def test_a_store_gives_the_windows_of_its_table(tmp_path):
    greater = np.random.default_rng(5).geometric(0.4, 768).clip(max=99) - 1
    ranked = Ranked(make_store(tmp_path / "toy", greater, [40, 3, 700, 25]))
    places = ranked.tokens["document"].tolist(), ranked.tokens["position"].tolist()
    for k, own in ranked.windows().groupby("k"):
        expected = [brute((ranked.ranks <= k).tolist(), *places, n) for n in WINDOW_LENGTHS]
        found = own[["successes", "windows"]].itertuples(index=False, name=None)
        assert list(found) == [each for each in expected if each[1]]
