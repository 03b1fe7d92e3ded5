"""The terms at the authors' points, where the approximation breaks, and the ways on; how they are shown."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from rbp.paper.appendix_c import all_checked, notation, numbers


@pytest.fixture(scope="module")
def terms() -> pd.DataFrame:
    return numbers.equation_terms(numbers.authors_points())


def test_terms_add_up(terms: pd.DataFrame) -> None:
    assert len(terms) == 10
    np.testing.assert_allclose(terms["log_c"] + terms["log_scale"] + terms["square"], terms["neg_log_p1"], rtol=1e-12)
    np.testing.assert_allclose(terms["neg_log_p1"] + terms["fraction"], terms["entropy"], rtol=1e-12)
    # Z of equation 24 by its own sum, at the largest model
    ranks = np.arange(1.0, 3e6)
    row = terms.iloc[-1]
    z = (ranks ** -(1 + row["lam"]) * np.exp(-(np.log(ranks) ** 2) / (2 * row["sigma"] ** 2))).sum()
    assert row["c_over_phi"] * row["sigma"] == pytest.approx(z, rel=1e-3)


def test_the_fraction_as_printed_stands_beside_what_it_approximates(terms: pd.DataFrame) -> None:
    mu, sigma = (terms[name].iloc[-1] for name in ("mu", "sigma"))
    mass, density = norm.cdf(mu / sigma), norm.pdf(mu / sigma)
    top = mass * ((sigma**2 - mu**2) / (2 * sigma**2) + mu) + density * (sigma - mu / (2 * sigma))
    printed = top / (density / (2 * sigma) + mass)  # equation 26 over equation 20
    last = terms.iloc[-1]
    assert last["fraction_approx"] == pytest.approx(printed, rel=1e-12)
    assert last["fraction_share_approx"] == pytest.approx(printed / last["entropy_approx"], rel=1e-12)
    assert last["fraction_share"] == pytest.approx(1 - last["neg_log_p1"] / last["entropy"], rel=1e-12)
    assert abs(last["fraction"] / printed - 1) > 0.05  # two numbers, not one under two names


def test_zeta_is_missing_where_it_does_not_exist(terms: pd.DataFrame) -> None:
    assert (terms["zeta_p1"].isna() == (terms["lam"] <= 0)).all()
    assert (terms["zeta_p1"].dropna() > terms["neg_log_p1"][terms["lam"] > 0]).all()  # damping takes terms away


def test_ways_on_pass_by_the_points_and_part(terms: pd.DataFrame) -> None:
    linear, other = numbers.extrapolations(terms)
    for way, off in ((linear, 0.25), (other, 0.1)):
        near = numbers.along_path(way.at, terms["size"])
        np.testing.assert_allclose(near["neg_log_p1"], terms["neg_log_p1"], rtol=off)
    far = [numbers.along_path(way.at, [1e12, 1e16, 1e20])["entropy"].to_numpy() for way in (linear, other)]
    assert (np.diff(far[0]) > 0).all()
    assert (np.diff(far[1]) < 0).all()


def test_the_asymptotic_exponent_is_approached(terms: pd.DataFrame) -> None:
    way = numbers.extrapolations(terms)[1]
    assert way.asymptotic is not None
    curve = numbers.along_path(way.at, [1e150, 1e152])
    found = numbers.local_exponents(curve).iloc[0]
    assert found["alpha_p1"] == pytest.approx(way.asymptotic, rel=0.02)
    assert found["alpha_ce"] < found["alpha_p1"]  # a factor that grows as ln S


def test_every_checked_expression_is_on_the_page() -> None:
    page = notation.rendered(all_checked())
    for one in all_checked():
        assert notation.display(one.equation.tex) in page
        for _, tex in one.work:
            assert notation.display(tex) in page
    assert "&lt;" in notation.display("a < b")
