"""Lists of k and k tries, and the mixture that foretells their exponents."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom
from toy_stores import make_store

from rbp.core.errors import DataError, FitError
from rbp.paper import tries
from rbp.paper.figures.exponents import tries_panels
from rbp.paper.tries import LIST, TRIES, BetaMixture, fit_mixture
from rbp.stats.power_law import fit_power_law

KS = [1, 2, 10, 100, 1000]


@given(st.floats(0.05, 20), st.floats(0.05, 20))
def test_a_mixture_misses_as_scipy_says(a: float, b: float) -> None:
    missed = betabinom.pmf(0, KS, a, b)
    assert np.exp(BetaMixture(a, b).log_missed(KS)) == pytest.approx(missed, rel=1e-8)


@given(st.floats(0.02, 5), st.floats(0.02, 5), st.sampled_from([2, 10, 50]))
def test_two_values_give_the_mixture_back(a: float, b: float, k: int) -> None:
    first, later = BetaMixture(a, b).neg_log([1, k])
    found = fit_mixture(first, later, k)
    assert (found.a, found.b) == pytest.approx((a, b), rel=1e-6)


def test_no_mixture_is_more_even_than_equal_difficulty() -> None:
    """(1 − q)^k is the least that can be missed, by Jensen’s inequality; at most all is missed that one try misses."""
    even = -np.log(1 - 0.7**10)
    with pytest.raises(FitError, match="no mixture"):
        fit_mixture(-np.log(0.3), even * 0.99, 10)
    with pytest.raises(FitError, match="no mixture"):
        fit_mixture(-np.log(0.3), -np.log(0.3), 10)
    assert fit_mixture(-np.log(0.3), even * 1.01, 10).a > 10


def family(shape: float = 0.3) -> pd.DataFrame:
    """Models whose tokens are a Beta mixture each: more of them easy as size grows."""
    rows = []
    for i, size in enumerate(np.geomspace(1e6, 1e9, 5)):
        value = BetaMixture(shape * 1.1**i, 0.9 * 0.7**i).neg_log(KS)
        rows += [("news", "Toy", f"m{i}", size, k, y) for k, y in zip(KS, value, strict=True)]
    return pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "k", "value"])


def test_models_without_a_mixture_are_left_out() -> None:
    points = family()
    points.loc[(points["model"] == "m0") & (points["k"] == 10), "value"] = 1e-9
    assert set(tries.foretold(points, 10, KS)["model"]) == {"m1", "m2", "m3", "m4"}
    with pytest.raises(DataError, match="no model has points"):
        tries.foretold(points[points["k"] > 1], 10, KS)


def test_tries_are_draws_from_the_prediction(tmp_path) -> None:
    """Two tokens of probability ½ and ⅒, drawn k times each."""
    nll = -np.log(np.array([0.5, 0.1] * 20))
    greater = np.array([0, 4] * 20)
    store = make_store(tmp_path / "store", greater, [20, 20], nll=nll)
    found = tries.of_tokens([store], [1, 3, 7]).set_index(["way", "k"])["value"]
    for k in (1, 3, 7):
        drawn = 1 - (0.5**k + 0.9**k) / 2
        assert found[TRIES, k] == pytest.approx(-np.log(drawn), rel=1e-6)  # the store keeps single precision
        assert np.exp(-found[LIST, k]) == pytest.approx((1 + (k >= 5)) / 2)
    sure = make_store(tmp_path / "sure", greater * 0, [20, 20], nll=0.0)
    assert (tries.of_tokens([sure], [1, 5])["value"] == 0).all()
    with pytest.raises(DataError, match="exceeds the vocabulary"):
        tries.of_tokens([store], [1000])


def test_a_change_is_that_of_the_exponents() -> None:
    points = family()
    row = tries.change(points.assign(way=LIST), 100).iloc[0]
    first, later = (fit_power_law(o["size"], o["value"]).alpha for o in (points[points["k"] == k] for k in (1, 100)))
    assert row["change"] == pytest.approx(later - first)
    assert row["low"] < row["change"] < row["high"]


def test_the_figure_has_both_ways_and_their_mixtures() -> None:
    told = tries.foretold(family(), 10, KS)
    table = tries.by_k(pd.concat([told.assign(way=LIST), told.assign(way=TRIES, value=told["value"] * 1.1)]))
    panels = tries_panels(table, 10)
    (ax,) = panels.single(panels.keys[0]).axes
    solid = [line for line in ax.lines if line.get_linestyle() == "-"]
    assert [list(line.get_xdata()) for line in solid] == [pytest.approx(KS, rel=0.02)] * 2, "beside one another"
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed[0].get_ydata() == pytest.approx(solid[0].get_ydata())
