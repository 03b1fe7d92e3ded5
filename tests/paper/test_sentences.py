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


def told(**errors: list[float]) -> pd.DataFrame:
    rows = [(family, error, 0.9, 1.1, 1.0, True) for family, each in errors.items() for error in each]
    return pd.DataFrame(rows, columns=["family", "error", "low", "high", "predicted", "covered"])


def test_which_way_forecasts_err() -> None:
    assert wording.leaning(told(A=[-0.1, -0.2, -0.1, 0.1])) == "too hopeful"
    assert wording.leaning(told(A=[0.1, 0.2, 0.1, -0.1])) == "too cautious"
    assert "as often" in wording.leaning(told(A=[0.1, -0.2]))


def test_other_families() -> None:
    assert wording.other_families(told(P=[-0.1]), "P") == ""
    text = wording.other_families(told(P=[-0.1] * 5, A=[-0.1, -0.1], B=[0.1, 0.1, -0.1]), "P")
    assert text == (
        "For the other families 5 of 5 are covered, by intervals that are, at the median, 20 per cent of the forecast "
        "wide. Over all families 8 of 10 forecasts are too hopeful; the exception is B (1 of 3)."
    )
    assert "exception" not in wording.other_families(told(P=[-0.1], A=[-0.1]), "P")


def test_the_closest_curve() -> None:
    errors = pd.Series({"power law": 0.07, "offset": 0.02, "logarithm": 0.2})
    assert wording.closest_curve(errors) == "The law with a floor comes closest; the logarithm is farthest off."


def test_neighbours_on_the_same_side() -> None:
    cell = {"dataset": "d", "k": 1}
    rows = [
        cell | {"family": f, "size": s, "residual": r}
        for f, s, r in zip("AAAAB", [4, 3, 2, 1, 1], [1, 1, -1, 1, 1], strict=True)
    ]
    assert wording.same_side(pd.DataFrame(rows)) == (1, 3)


def test_imitations() -> None:
    rows = [("power law", "L", 4, 1.0, 0.5), ("logarithm", "L", 4, 0.99, 0.25), ("power law", "P", 10, 1.0, 0.9)]
    drawn = pd.DataFrame(
        [*rows, ("logarithm", "P", 10, 0.95, 0.1)], columns=["shape", "sampled", "n", "smooth", "share"]
    )
    text = wording.imitations(drawn, 0.98)
    assert "an R² of 0.9500 or more" in text
    assert text.endswith("50 and 25 per cent at the four sizes of L and 90 and 10 per cent at the ten sizes of P.")
