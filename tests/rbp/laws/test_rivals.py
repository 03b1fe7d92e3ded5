"""Laws in S and D side by side: what made the values wins, and what the design cannot tell apart is said."""

import numpy as np
import pandas as pd
import pytest

from rbp.errors import FitError
from rbp.laws.misfit import ADDITIVE, PRODUCT, SUM
from rbp.laws.rivals import side_by_side

SIZES, TOKENS = (1e4, 3e4, 1e5, 3e5, 1e6), (1e6, 2e6, 4e6, 8e6)


def grid(law, noise=0.002, sizes=SIZES, tokens=TOKENS):
    rows = [(f"{size:g}", size, D, law(size, D)) for size in sizes for D in tokens]
    table = pd.DataFrame(rows, columns=["run", "size", "training_tokens", "value"])
    return table.assign(value=table["value"] * np.exp(np.random.default_rng(3).normal(0, noise, len(table))))


def a_product(size, tokens):
    return 90 * size**-0.15 * tokens**-0.2


def a_sum(size, tokens):
    return 40 * size**-0.5 + 300 * tokens**-0.4


@pytest.fixture(scope="module")
def compared():
    floored = grid(lambda size, tokens: 1 + 3 * a_sum(size, tokens), 0.0005, tokens=TOKENS[1:])
    return {PRODUCT: side_by_side(grid(a_product)), ADDITIVE: side_by_side(floored)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("right", "wrong", "cuts"), [(PRODUCT, SUM, ["size", "budget", "both"]), (ADDITIVE, PRODUCT, ["size"])]
)
def test_the_form_that_made_the_values_forecasts_them(compared, right, wrong, cuts):
    found = compared[right]
    errors = found.errors.set_index(["form", "hidden"])
    assert errors.loc[right].index.tolist() == cuts
    assert errors.loc[right, "tied"].all()
    assert (errors.loc[right, "error"] < 1).all()
    assert not errors.loc[wrong, "tied"].all()


def test_the_exponents_have_intervals_by_runs(compared):
    """The jackknife by hand."""
    table, slopes = grid(a_product), []
    row = compared[PRODUCT].laws.set_index("form").loc[PRODUCT]
    for out in [None, *table["run"].unique()]:
        own = table[table["run"] != out]
        x = np.column_stack([np.ones(len(own)), -np.log(own["size"]), -np.log(own["training_tokens"])])
        slopes.append(np.linalg.lstsq(x, np.log(own["value"]), rcond=None)[0][1:])
    (alpha, beta), without = slopes[0], np.array(slopes[1:])[:, 0]
    error = np.sqrt(4 / 5 * np.sum((without - without.mean()) ** 2))
    assert (row["alpha"], row["beta"]) == pytest.approx((alpha, beta), abs=1e-8)
    assert (row["alpha_high"] - row["alpha"]) / error == pytest.approx(2.7764, abs=1e-3)  # t of 4 degrees of freedom


def test_what_the_design_cannot_tell_apart_is_said(compared):
    together = grid(a_product, sizes=SIZES[:4], tokens=(20.0,))
    together["training_tokens"] *= together["size"]
    with pytest.raises(FitError, match=r"grow together \(correlation 1.000\).*one number of training tokens"):
        side_by_side(together)
    with pytest.raises(FitError, match="leave none to hide"):
        side_by_side(grid(a_product, sizes=SIZES[:3], tokens=TOKENS[:3]))
    few = side_by_side(grid(a_product, sizes=SIZES[:3]))
    assert few.errors["tied"].all()  # without one of three sizes there is no law, so nothing is sure
    near = pd.concat([together, together.assign(training_tokens=together["training_tokens"] * 1.2)])
    assert any("grow together" in said for said in side_by_side(near).design)
    assert [any("floor" in said for said in compared[form].design) for form in (PRODUCT, ADDITIVE)] == [True, False]
    assert compared[ADDITIVE].laws.set_index("form").loc[ADDITIVE, "offset"] == pytest.approx(1, abs=0.1)
