import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import betaln
from simulated import chain

from companion.stats.hit_models import LAWS, beta_binomial, fit_distance, markov
from rbp.measurements.windows import window_counts


def test_the_chain_is_what_simulated_windows_show():
    text = chain(np.random.default_rng(1), 400, 1000, 0.6, 0.8)
    found = window_counts(*text, [1, 2, 5, 10])
    shares = (found["successes"] / found["windows"]).to_numpy()
    assert -np.log(shares) == pytest.approx(markov(found["n"], 0.6, 0.8), rel=0.03)


def test_the_beta_binomial_is_a_ratio_of_beta_functions():
    n, a, b = np.array([1, 2, 10, 300]), 0.7, 3.0
    expected = betaln(a, b) - betaln(a + n, b)
    assert beta_binomial(n, a / (a + b), 1 / (a + b + 1)) == pytest.approx(expected, rel=1e-12)
    assert beta_binomial(n, 0.3, 0.0) == pytest.approx(-n * np.log(0.3))  # at the ends it is the simpler laws
    assert beta_binomial(n, 0.3, 1.0) == pytest.approx(np.full(4, -np.log(0.3)))
    alone = fit_distance([1, 2, 5, 10], LAWS["independence"]([1, 2, 5, 10], hit=0.4), "beta-binomial")
    assert alone.edge == "independence"
    assert alone.neg_log([100])[0] == pytest.approx(LAWS["independence"]([100], hit=0.4)[0], rel=1e-9)


MADE = [
    ("independence", {"hit": 0.4}),
    ("independence", {"hit": 0.9999}),
    ("markov", {"hit": 0.4, "stay": 0.7}),
    ("markov", {"hit": 0.995, "stay": 0.999}),
    ("beta-binomial", {"hit": 0.37, "correlation": 0.34}),
    ("beta-binomial", {"hit": 0.993, "correlation": 0.03}),
]


@pytest.mark.parametrize(("law", "parameters"), MADE)
def test_a_fit_finds_the_law_that_made_the_values(law, parameters):
    n = [1, 2, 5, 10]
    fit = fit_distance(n, LAWS[law](n, **parameters), law)
    assert fit.distance < 1e-14
    assert fit.parameters == pytest.approx(parameters, rel=1e-9)
    assert fit.neg_log([100])[0] == pytest.approx(LAWS[law]([100], **parameters)[0], rel=1e-9)
    assert fit.edge == ""


@pytest.mark.parametrize("law", ["markov", "beta-binomial"])
def test_noisy_values_have_the_fit_of_a_direct_search(law):
    n = np.array([1, 2, 5, 10])
    y = beta_binomial(n, 0.8, 0.4) * np.exp(0.02 * np.random.default_rng(6).normal(size=4))
    options = {"method": "Nelder-Mead", "bounds": [(0.01, 0.99)] * 2, "options": {"xatol": 1e-10, "fatol": 1e-16}}
    search = minimize(lambda p: np.mean(np.log(LAWS[law](n, *p) / y) ** 2), [0.7, 0.5], **options)
    assert fit_distance(n, y, law).distance == pytest.approx(np.sqrt(search.fun), rel=1e-6)
