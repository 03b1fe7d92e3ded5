"""The sentences that follow the measurements: worked examples of each branch."""

import pandas as pd
import pytest

from rbp.paper import wording


@pytest.mark.parametrize(("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), ([*"abc"], "a, b and c")])
def test_names_in_a_row(names: list[str], text: str) -> None:
    assert wording.joined(names) == text


def test_small_numbers_are_words() -> None:
    assert [wording.word(n) for n in (0, 4, 12, 13)] == ["no", "four", "twelve", "13"]


def test_printed_numbers() -> None:
    assert wording.beside_print(30, 32) == "Ours round to the same digits in 30 of 32 numbers."
    assert wording.beside_print(0, 0) == "The paper prints nothing for these data."


def test_fits_in_a_row() -> None:
    fits = pd.DataFrame({"family": ["A", "B"], "dataset": ["humaneval", "new"], "k": [1, 20000], "r_squared": [0.9, 1]})
    assert wording.fits_listed(fits) == "A on HumanEval at k = 1, B on new at k = 20000"
    assert wording.fits_listed(fits, r_squared=True, joint="; ") == (
        "A on HumanEval at k = 1 (0.900); B on new at k = 20000 (1.000)"
    )
    assert wording.fits_listed(fits[:0]) == "none"
