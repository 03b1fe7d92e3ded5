"""The sentences that follow the measurements: worked examples of each branch."""

import pandas as pd
import pytest

from rbp.paper import wording


def fits(**sizes: int) -> pd.DataFrame:
    """Fits with α = 0.1; the intervals of families with ten sizes are 10 per cent wide, all others 40."""
    rows = [(family, n, 0.005 if n == 10 else 0.02) for family, n in sizes.items()]
    return pd.DataFrame([(f, n, 0.1, 0.1 - w, 0.1 + w) for f, n, w in rows], columns=COLUMNS)


COLUMNS = ["family", "n", "alpha", "alpha_low", "alpha_high"]


@pytest.mark.parametrize(("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), ([*"abc"], "a, b and c")])
def test_names_in_a_row(names: list[str], text: str) -> None:
    assert wording.joined(names) == text


def test_small_numbers_are_words() -> None:
    assert [wording.word(n) for n in (0, 4, 12, 13)] == ["no", "four", "twelve", "13"]


def test_printed_numbers() -> None:
    assert wording.beside_print(30, 32) == "Ours round to the same digits in 30 of 32 numbers."
    assert wording.beside_print(0, 0) == "The paper prints nothing for these data."


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        (
            {"P": 10, "A": 4, "B": 5},
            "Only P offers ten sizes. The other families offer four or five sizes, and their intervals of α are "
            "40 per cent of α wide at the median, against 10 per cent for P.",
        ),
        ({"L": 4}, "L offers four sizes, and the intervals of α are 40 per cent of α wide at the median."),
        ({"L": 7}, "L offers seven sizes, and the intervals of α are 40 per cent of α wide at the median."),
        ({"A": 4, "B": 4}, "A and B offer four sizes, and the intervals of α are 40 per cent of α wide at the median."),
    ],
)
def test_precision(sizes: dict[str, int], text: str) -> None:
    assert wording.precision(fits(**sizes)) == text


def test_spans() -> None:
    points = pd.DataFrame({"family": ["A", "A", "B", "B"], "size": [10, 120, 1, 9500]})
    assert wording.spans(points) == "12 (A) to 9 500 (B)"
    assert wording.spans(points[:2]) == "12 (A)"
