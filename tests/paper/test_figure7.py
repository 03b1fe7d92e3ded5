import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import ParameterError
from rbp.evidence.tokens import published_windows
from rbp.paper import emergence


@pytest.fixture(scope="module")
def pythia():
    return published_windows().query("family == 'Pythia'")


def test_one_recipe_gives_all_sixteen_printed_numbers(pythia):
    found = emergence.recipes(pythia)
    best = found.iloc[0]
    assert (best["combination"], best["zero"], best["agree"], best["numbers"]) == (emergence.SEPARATE, 1e-12, 16, 16)
    assert found.iloc[1]["agree"] <= 8
    for k, rows in pythia.groupby("k"):
        assert np.round(emergence.recipe(rows, emergence.SEPARATE, 1e-12), 3) == pytest.approx(emergence.PRINTED[k])


def test_recipes_agree_on_a_law_that_holds():
    size = np.array([1e6, 1e7, 1e8, 1e9])
    table = pd.concat(
        pd.DataFrame({"n": n, "size": size, "p": np.exp(-0.5 * n * (size / 1e6) ** -0.2)}) for n in (1, 5, 20)
    )
    for combination in emergence.COMBINATIONS:
        assert emergence.recipe(table, combination, None) == pytest.approx((0.2, 1.0))


def test_a_length_without_any_success_counts_as_a_perfect_flat_line():
    size = np.array([1e6, 1e7, 1e8])
    law = pd.DataFrame({"n": 1, "size": size, "p": np.exp(-((size / 1e6) ** -0.3))})
    both = pd.concat([law, law.assign(n=500, p=0.0)])
    assert emergence.recipe(both, emergence.SEPARATE, 1e-12) == pytest.approx((0.15, 1.0))
    assert emergence.recipe(both, emergence.SEPARATE, None) == pytest.approx((0.3, 1.0))


def test_the_recipe_stands_beside_print_and_beside_one_line(pythia):
    found = emergence.beside_printed(pythia, emergence.SEPARATE, 1e-12).set_index("k")
    assert np.round(found["alpha"], 3).tolist() == found["alpha_printed"].tolist()
    assert found.loc[10_000, "zeros"] == 0
    pooled = found["r_squared_pooled"][[1, 10, 100, 10_000]]
    assert pooled.tolist() == pytest.approx([0.155, 0.308, 0.520, 0.960], abs=5e-4)


def test_one_line_is_wrong_in_every_level_where_n_has_another_power():
    """Exact in S, and N to the power one half: one line is right in slope, and misses what the levels vary by."""
    lengths, sizes = np.array([1, 4, 16]), np.array([1e6, 1e7, 1e8])
    rows = [(n, s, np.exp(-(n**0.5) * (s / 1e6) ** -0.2)) for n in lengths for s in sizes]
    pooled = emergence.recipe(pd.DataFrame(rows, columns=["n", "size", "p"]), emergence.POOLED, None)
    by_size, by_length = ((0.2 * np.log(sizes)).var(), (0.5 * np.log(lengths)).var())
    assert pooled == pytest.approx((0.2, by_size / (by_size + by_length)))


def test_the_family_with_the_most_models_is_taken_unless_one_is_named():
    windows = pd.DataFrame({"dataset": "c4", "family": ["A", "B", "B"], "model": ["a", "b", "c"]})
    assert set(emergence.one_family(emergence.on_dataset(windows, "c4"))["model"]) == {"b", "c"}
    assert set(emergence.one_family(windows, "A")["model"]) == {"a"}
    with pytest.raises(ParameterError, match=r"no windows of C.*\n.*there is: A, B"):
        emergence.one_family(windows, "C")
    with pytest.raises(ParameterError, match=r"no windows of pile.*\nThere is: c4"):
        emergence.on_dataset(windows, "pile")


def test_what_follows_by_algebra_is_so_by_numbers():
    follows = emergence.algebra()
    assert follows == {
        "equation_6": "yes",
        "equation_6_dependent": "no",
        "equation_6_unlike": "no",
        "sigmoid": "yes",
        "sharper": "no",
    }
    drawn = np.random.default_rng(1).random((200_000, 4)) < 0.6
    assert drawn.all(axis=1).mean() == pytest.approx(0.6**4, abs=4 * np.sqrt(0.6**4 / 200_000))
    x = np.linspace(-20, 60, 400_001)
    curves = {n: np.exp(-3 * n * np.exp(-0.3 * x)) for n in (1, 50)}
    for curve in curves.values():
        bend = np.gradient(np.gradient(curve, x), x)[(curve > 1e-6) & (curve < 1 - 1e-6)]
        assert (np.diff(np.sign(bend)) != 0).sum() == 1
        assert np.gradient(curve, x).max() == pytest.approx(0.3 / np.e, rel=1e-6)
