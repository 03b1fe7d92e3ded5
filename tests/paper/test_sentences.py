"""Names and lists of them as the book shows them."""

import pandas as pd

from rbp.paper import wording


def test_small_numbers_are_words() -> None:
    assert [wording.word(n) for n in (0, 4, 12, 13)] == ["no", "four", "twelve", "13"]


def test_fits_in_a_row() -> None:
    fits = pd.DataFrame({"family": ["A", "B"], "dataset": ["humaneval", "new"], "k": [1, 20000], "r_squared": [0.9, 1]})
    assert wording.fits_listed(fits) == "A on HumanEval at k = 1, B on new at k = 20000"
    assert wording.fits_listed(fits, r_squared=True, joint="; ") == (
        "A on HumanEval at k = 1 (0.900); B on new at k = 20000 (1.000)"
    )
    assert wording.fits_listed(fits[:0]) == "none"
