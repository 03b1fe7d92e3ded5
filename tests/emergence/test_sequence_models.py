import numpy as np
import pytest
from simulated import chain, varying

from rbp.emergence.models import LAWS, beta_binomial, fit_distance, markov, renewed
from rbp.emergence.windows import window_counts
from rbp.errors import DataError, ParameterError


def test_the_chain_is_what_simulated_windows_show():
    text = chain(np.random.default_rng(1), 400, 1000, 0.6, 0.8)
    found = window_counts(*text, [1, 2, 5, 10])
    shares = (found["successes"] / found["windows"]).to_numpy()
    assert -np.log(shares) == pytest.approx(markov(found["n"], 0.6, 0.8), rel=0.03)


def test_the_beta_binomial_is_what_simulated_documents_show():
    text = varying(np.random.default_rng(2), 40_000, 20, 2.0, 3.0)
    found = window_counts(*text, [1, 2, 5, 10, 20])
    shares = (found["successes"] / found["windows"]).to_numpy()
    assert -np.log(shares) == pytest.approx(beta_binomial(found["n"], 2.0, 3.0), rel=0.03)


def test_renewed_contexts_are_what_a_simulation_shows():
    rng = np.random.default_rng(3)
    documents, length, renewal = 300_000, 6, 0.3
    rate = rng.beta(1.5, 1.0, documents)
    good = np.empty((documents, length), dtype=bool)
    for i in range(length):
        rate = np.where((rng.random(documents) < renewal) & (i > 0), rng.beta(1.5, 1.0, documents), rate)
        good[:, i] = rng.random(documents) < rate
    shares = np.cumprod(good, axis=1).mean(axis=0)
    assert -np.log(shares) == pytest.approx(renewed(np.arange(1, length + 1), 1.5, 1.0, renewal), rel=0.01)


def test_the_ends_of_renewal_are_the_simpler_laws():
    n = np.array([1, 2, 7, 50])
    assert renewed(n, 2.0, 1.0, 0.0) == pytest.approx(beta_binomial(n, 2.0, 1.0))
    assert renewed(n, 2.0, 1.0, 1.0) == pytest.approx(-n * np.log(2 / 3))


@pytest.mark.parametrize(
    ("law", "parameters"),
    [
        ("independence", {"hit": 0.4}),
        ("independence", {"hit": 0.9999}),
        ("markov", {"hit": 0.4, "stay": 0.7}),
        ("markov", {"hit": 0.995, "stay": 0.999}),
        ("beta-binomial", {"a": 0.7, "b": 1.2}),
        ("beta-binomial", {"a": 30.0, "b": 0.2}),
        ("renewed", {"a": 2.0, "b": 0.3, "renewal": 0.1}),
    ],
)
def test_a_fit_finds_the_law_that_made_the_values(law, parameters):
    n = [1, 2, 5, 10]
    fit = fit_distance(n, LAWS[law](n, **parameters), law)
    assert fit.distance < 1e-6
    assert fit.parameters == pytest.approx(parameters, rel=1e-2)
    assert fit.neg_log([100])[0] == pytest.approx(LAWS[law]([100], **parameters)[0], rel=1e-3)


def test_what_cannot_be_fitted_is_said():
    with pytest.raises(ParameterError, match="no law 'chain'"):
        fit_distance([1, 2], [1.0, 2.0], "chain")
    with pytest.raises(DataError, match="needs 2 lengths"):
        fit_distance([1], [1.0], "markov")
    with pytest.raises(DataError, match="0 < p < 1"):
        fit_distance([1, 2], [1.0, np.inf], "markov")
