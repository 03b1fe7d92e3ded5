"""The exchange rate between k and S: exact on a separable law, and where the local formula fails."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.stats.law_in_k import (
    beside_size,
    exact_factor,
    exchange,
    fit_in_k,
    local_factor,
    size_with_value,
    usable_from,
)
from rbp.errors import DataError, ParameterError
from rbp.laws.table import fit_table

SIZES = np.array([1e6, 1e7, 1e8, 1e9])


def separable(alpha_s=0.1, alpha_k=0.4, ks=(1, 2, 5, 10)):
    rows = [
        {"dataset": "d", "family": "f", "model": f"m{i}", "size": size, "metric": "neg_log_rbp", "k": k}
        | {"value": 5 * size**-alpha_s * k**-alpha_k}
        for i, size in enumerate(SIZES)
        for k in ks
    ]
    return pd.DataFrame(rows)


def test_a_separable_law_is_exchanged_exactly():
    points = separable()
    table = exchange(points, fit_in_k(points), 1, 2)
    assert table.ratio.to_numpy() == pytest.approx(4)
    assert table.exact.to_numpy() == pytest.approx(2**-4)
    assert table.measured.to_numpy() == pytest.approx(2**-4)
    assert table.extrapolated.tolist() == [True, True, False, False]  # 1e7/16 lies below 1e6
    assert (table.local < 0).all()  # 1 − 4: no size


def test_several_steps_at_once_are_those_taken_one_by_one():
    points = separable()
    fits = fit_in_k(points)
    both = exchange(points, fits, 1, [2, 5])
    for k, own in both.groupby("k_to"):
        pd.testing.assert_frame_equal(own.reset_index(drop=True), exchange(points, fits, 1, k))
    with pytest.raises(DataError, match="at k = 1 and at k = 3, 4"):
        exchange(points, fits, 1, [3, 4])


def test_exponents_stand_beside_those_of_their_family():
    points = separable(alpha_s=0.1, alpha_k=0.4)
    both = beside_size(fit_in_k(points), fit_table(points))
    assert len(both) == len(SIZES) * 4  # every model at every k
    assert both.times.to_numpy() == pytest.approx(4)
    with pytest.raises(DataError, match="both an exponent in k"):
        beside_size(fit_in_k(points), fit_table(points.assign(family="g")))


def test_the_preprints_factor_by_hand():
    assert local_factor(0.5, 2, [2, 5, 7]) == pytest.approx([1, 1 - 0.5 * 3 / 2, 1 - 0.5 * 5 / 2])


@given(st.floats(0.2, 20))
def test_usable_from_is_the_first_such_k(ratio):
    def off(k):
        return abs((local_factor(ratio, k, k + 1) - 1) / (exact_factor(ratio, k, k + 1) - 1) - 1)

    k = usable_from(ratio)
    assert off(k) <= 0.1
    assert k == 1 or off(k - 1) > 0.1


@pytest.mark.parametrize("ratio", [0, -1])
def test_usable_from_refuses_what_has_no_answer(ratio):
    with pytest.raises(ParameterError):
        usable_from(ratio)


def test_interpolation_between_neighbours_and_extrapolation_by_the_line():
    value = 3 * SIZES**-0.2
    size, extrapolated = size_with_value(SIZES[::-1], value[::-1], 3 * (3e8) ** -0.2)
    assert (size, extrapolated) == (pytest.approx(3e8), False)
    assert size_with_value(SIZES, value, 3 * (1e5) ** -0.2) == (pytest.approx(1e5), True)


def test_families_without_enough_sizes_are_left_out():
    points = separable()
    few = points[points["size"] < 1e8]
    both = pd.concat([points, few.assign(family="few")])
    assert set(exchange(both, fit_in_k(both), 1, 2)["family"]) == {"f"}
    with pytest.raises(DataError, match="three sizes both at k = 1 and at k = 2"):
        exchange(few, fit_in_k(points), 1, 2)
