import numpy as np
import pytest

from companion.stats.forecast import forecast
from rbp.errors import FitError, ParameterError
from rbp.laws.power import fit_power_law

SIZES = np.geomspace(1e6, 1e10, 8)


def test_the_held_out_are_the_largest_whatever_the_order() -> None:
    rng = np.random.default_rng(1)
    y = 4 * SIZES**-0.1 * np.exp(0.02 * rng.normal(size=8))
    shuffle = rng.permutation(8)
    got = forecast(SIZES[shuffle], y[shuffle], holdout=2, level=0.9)
    fit = fit_power_law(SIZES[:6], y[:6], level=0.9)
    ahead = fit.predict(SIZES[6:])
    assert got.fit.alpha == pytest.approx(fit.alpha, rel=1e-12)
    assert got.rows["size"].tolist() == SIZES[6:].tolist()
    assert got.rows["value"].tolist() == y[6:].tolist()
    np.testing.assert_allclose(got.rows["predicted"], ahead["value"], rtol=1e-12)
    np.testing.assert_allclose(got.rows["high"], ahead["high"], rtol=1e-10)
    np.testing.assert_allclose(got.rows["error"], ahead["value"] / y[6:] - 1, atol=1e-12)
    assert got.rows["covered"].tolist() == ((ahead["low"] <= y[6:]) & (y[6:] <= ahead["high"])).tolist()


def test_points_of_equal_size_are_held_out_together() -> None:
    sizes = [1e6, 1e7, 1e8, 1e9, 1e9]
    got = forecast(sizes, [5, 4, 3.1, 2.2, 2.1], holdout=1)
    assert got.rows["size"].tolist() == [1e9, 1e9]
    assert got.fit.n == 3


@pytest.mark.parametrize("holdout", [0, -1, 6])
def test_too_few_left_or_none_held_out(holdout: int) -> None:
    with pytest.raises(ParameterError, match=r"\(holdout\)"):
        forecast(SIZES, 4 * SIZES**-0.1, holdout=holdout)
    with pytest.raises(FitError, match="row 1"):
        forecast([1e6, 1e7, 1e8, 1e9], [4, -1, 2, 1], holdout=1)
