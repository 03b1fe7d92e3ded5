import pytest

from companion.evidence import published
from rbp.measurements.ranked import USUAL, WINDOW_LENGTHS, WINDOW_THRESHOLDS, large, usual


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


def test_every_threshold_and_length_of_the_paper_is_counted_and_between_them_steps_of_1_2_5() -> None:
    steps = {digit * 10**power for digit in (1, 2, 5) for power in range(6)}
    published_k, windows = set(published.fit_by_k()["k"]), published.sequence_success()
    assert published_k <= set(USUAL)
    assert set(USUAL) - published_k <= steps | {4, 6, 8, 9}
    assert set(windows["k"]) <= set(WINDOW_THRESHOLDS) <= steps | {2500}
    assert tuple(sorted(set(windows["n"]))) == WINDOW_LENGTHS
