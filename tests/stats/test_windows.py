import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbp.core.errors import ParameterError
from rbp.evidence.ranked import WINDOW_LENGTHS, Ranked
from rbp.stats.windows import window_counts


@st.composite
def texts(draw):
    """Documents of any length, with gaps in their positions."""
    hits, documents, positions = [], [], []
    for document in range(draw(st.integers(1, 4))):
        position = 0
        for good in draw(st.lists(st.booleans(), max_size=12)):
            position += draw(st.sampled_from([1, 1, 1, 2]))
            hits.append(good)
            documents.append(document)
            positions.append(position)
    return hits, documents, positions


def brute(hits, documents, positions, n, overlapping):
    """Stretch by stretch, window by window."""
    stretches, last = [], None
    for row in zip(hits, documents, positions, strict=True):
        if last is None or row[1] != last[1] or row[2] != last[2] + 1:
            stretches.append([])
        stretches[-1].append(row[0])
        last = row
    windows = [s[i : i + n] for s in stretches for i in range(0, len(s) - n + 1, 1 if overlapping else n)]
    return sum(map(all, windows)), len(windows)


@given(texts(), st.integers(1, 6), st.booleans())
def test_windows_are_those_of_a_walk_through_the_text(text, n, overlapping):
    found = window_counts(*map(np.array, text), [n], overlapping=overlapping).iloc[0]
    assert (found["successes"], found["windows"]) == brute(*text, n, overlapping)


def test_a_window_needs_a_token():
    with pytest.raises(ParameterError, match="at least 1 token"):
        window_counts([True], [0], [0], [0])


def test_a_store_gives_the_windows_of_its_table(store):
    ranked = Ranked(store)
    places = ranked.tokens["document"], ranked.tokens["position"]
    for k, expected in ranked.windows().groupby("k"):
        found = window_counts(ranked.ranks <= k, *places, WINDOW_LENGTHS)
        found = found[found["windows"] > 0]
        assert found["successes"].tolist() == expected["successes"].tolist()
        assert found["windows"].tolist() == expected["windows"].tolist()
    apart = window_counts(ranked.ranks <= 1, *places, [1, 5], overlapping=False)["windows"].tolist()
    assert apart == [store.tokens, sum(length // 5 for length in (40, 3, 700, 25))]
