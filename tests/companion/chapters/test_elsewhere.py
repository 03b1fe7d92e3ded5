"""α over k of made-up families, and −ln RBP_k as a power of k against simulated ranks."""

import numpy as np
import pandas as pd
import pytest
from draws import loop_and_slow, may_be

from companion.chapters import elsewhere
from companion.chapters.elsewhere import sampling_covariance, sampling_test

S = np.array([1e6, 1e7, 1e8, 1e9])
K = np.array([1, 2, 3, 5, 7, 10, 18, 30, 50, 78, 100])
NO_TOKENS = pd.DataFrame({"dataset": ["d"], "family": ["f"], "tokens": [10_000], "basis": ["at most"]})


def test_the_ratio_is_that_of_the_laws_with_an_interval_over_models():
    rows = [(f"{size:g}", size, k, 3 * size ** (-0.1 if k == 1 else -0.17)) for size in S for k in (1, 10)]
    points = pd.DataFrame(rows, columns=["model", "size", "k", "value"]).assign(dataset="d", family="f")
    (row,) = elsewhere.ratios_of_models(points, [10], source="x").to_dict("records")
    assert (row["alpha_1"], row["alpha"], row["ratio"]) == pytest.approx((0.1, 0.17, 1.7))
    wave = 1 + 0.03 * np.sin(7 * np.log(S))
    bumpy = points.assign(value=points.value * points["size"].map(dict(zip(S, wave, strict=True))))
    other = elsewhere.ratios_of_models(bumpy[(bumpy.k == 1) | (bumpy["size"] < 1e9)], [10], source="x").iloc[0]
    by_hand = [-np.polyfit(np.log(S[:3]), np.log(3 * S[:3] ** -a * wave[:3]), 1)[0] for a in (0.1, 0.17)]
    assert other["ratio"] == pytest.approx(by_hand[1] / by_hand[0])  # only models that have both
    assert other["low"] < other["ratio"] < other["high"]


def model(value, *, name="a", k=K):
    return pd.DataFrame({"dataset": "d", "family": "f", "model": name, "size": 1000, "k": k, "value": value})


def simulate(rng, law, tokens):
    """RBP_k of ranks drawn one token at a time (in bins between thresholds)."""
    share = np.exp(-law)
    counts = rng.multinomial(tokens, np.append(np.diff(share, prepend=0), 1 - share[-1]))
    return -np.log(np.cumsum(counts[:-1]) / tokens)


@pytest.mark.parametrize("draws", loop_and_slow(100, 2000))
def test_covariance_and_coverage_against_simulated_ranks(draws):
    rng, law, tokens = np.random.default_rng(7), 0.8 * K**-0.4, 20_000
    values = np.array([simulate(rng, law, tokens) for _ in range(4000)])
    right = sampling_covariance(law, K, tokens)
    np.testing.assert_allclose(np.cov(np.log(values).T), right, rtol=0.12, atol=0.02 * 5e-5)
    tests = [sampling_test(K, value, tokens) for value in values[:draws]]
    assert np.mean([chi2 for chi2, _ in tests]) == pytest.approx(9, abs=3.5 * (2 * 9 / draws) ** 0.5)
    assert may_be(sum(p < 0.05 for _, p in tests), draws, 0.05)


def test_bounds_are_no_numbers_of_tokens_and_few_thresholds_no_curve():
    points = model(0.8 * K**-0.4 * (1 + 0.01 * np.sin(K)))
    counted = NO_TOKENS.assign(basis="counted")
    p = elsewhere.fits_in_k(points, counted).p.item()
    assert p == sampling_test(K, points.value, 10_000)[1]
    assert elsewhere.fits_in_k(points, NO_TOKENS).p.isna().all()
    alike = points.assign(value=points["value"].where(points["k"] < 78, points["value"].iloc[-1]))
    assert elsewhere.fits_in_k(alike, counted).p.isna().all()  # two thresholds share one value
    both = pd.concat([points, model(0.5, name="b", k=K[:5]).assign(value=K[:5] ** -0.1)])
    assert elsewhere.fits_in_k(both, counted).model.tolist() == ["a"]
