import pytest

from rbp.evidence.ranked import large, usual


@pytest.mark.parametrize(
    ("share", "vocabulary", "k"),
    [(0.4, 4096, 1638), (0.6, 4096, 2458), (0.25, 10, 2), (0.75, 10, 8), (0.001, 100, 1), (1.0, 50257, 50257)],
)
def test_a_share_of_the_vocabulary_is_rounded_to_the_nearest_threshold(share: float, vocabulary: int, k: int) -> None:
    assert large(share, vocabulary) == k


def test_thresholds_of_a_small_vocabulary_end_with_it() -> None:
    ks = usual(60)
    assert ks == sorted(set(ks))
    assert set(ks) == {*range(1, 11), 18, 20, 24, 30, 36, 50}
