"""Scatter beyond counting: against statsmodels, a closed form, and counts with and without scatter of their own."""

import numpy as np
import pytest
import statsmodels.api as sm
from draws import loop_and_slow, may_be
from scipy.stats import chi2

from companion.stats.overdispersion import fit_counts, scatter_about_law

SIZES = np.geomspace(1e6, 1e10, 8)
TOKENS = 50_000


def counts(rng, extra=0.0, level=0.02):
    value = level * (SIZES / 1e8) ** -0.15 * np.exp(rng.normal(0, extra, SIZES.size) if extra else 0)
    return rng.binomial(TOKENS, -np.expm1(-value))


def test_the_fit_is_the_generalized_linear_model():
    rng = np.random.default_rng(0)
    sets = [counts(rng), counts(rng, 0.3), np.array([3, 0, 1, 2, 0, 0, 1, 0])]
    together = fit_counts(SIZES, np.array(sets), TOKENS)[1]
    for misses, of_all in zip(sets, together, strict=True):
        both = np.column_stack([misses, TOKENS - misses])
        link = sm.families.Binomial(sm.families.links.CLogLog())
        model = sm.GLM(both, sm.add_constant(np.log(SIZES)), family=link).fit(tol=1e-13, maxiter=200)
        line, deviance = fit_counts(SIZES, misses, TOKENS)
        assert deviance == pytest.approx(of_all) == pytest.approx(model.deviance, abs=1e-7)
        assert -np.expm1(-np.exp(line)) == pytest.approx(model.fittedvalues, rel=1e-6)


@pytest.mark.parametrize("draws", loop_and_slow(60, 2000))
@pytest.mark.parametrize("level", [0.02, 0.0002])  # a thousand misses, and ten
def test_counting_alone_is_rejected_once_in_twenty(level, draws):
    rng, found = np.random.default_rng(2), []
    while len(found) < draws:
        misses = counts(rng, level=level)
        if misses.all():
            found.append(scatter_about_law(SIZES, misses, TOKENS, resamples=400)[0].p < 0.05)
    assert may_be(sum(found), draws, 0.04, 0.06)


@pytest.mark.parametrize("draws", loop_and_slow(60, 2000))
@pytest.mark.parametrize("extra", [0.0, 0.05, 0.3])
def test_the_interval_covers_the_scatter_that_was_put_in(extra, draws):
    """Where none was, the interval's lower end is 0 in all but one half of what it may miss."""
    rng, covered = np.random.default_rng(3), 0
    for _ in range(draws):
        (found,) = scatter_about_law(SIZES, counts(rng, extra), TOKENS, resamples=1)
        covered += found.extra_low <= extra <= found.extra_high
    assert may_be(covered, draws, 0.93, 0.985 if extra == 0 else 0.97)


def test_with_one_error_for_all_it_is_the_chi_square_interval():
    """Many tokens: counting vanishes, and the interval is that of a standard deviation."""
    rng = np.random.default_rng(4)
    y = np.log(0.02) - 0.15 * np.log(SIZES / 1e8) + rng.normal(0, 0.1, 8)
    tokens = 1e15
    (found,) = scatter_about_law(SIZES, np.rint(-np.expm1(-np.exp(y)) * tokens), tokens, resamples=1)
    squares = ((y - np.polyval(np.polyfit(np.log(SIZES), y, 1), np.log(SIZES))) ** 2).sum()
    ends = np.sqrt(squares / chi2.ppf([0.975, 0.025], 6))
    assert (found.extra_low, found.extra_high) == pytest.approx(tuple(ends), rel=1e-5)
    assert found.extra == pytest.approx(np.sqrt(squares / 6), rel=1e-5)
    assert found.df == 6
    assert not found.enough
