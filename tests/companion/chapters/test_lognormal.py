"""Fits of measured ranks, the predicted curves against those published, and exponents on lines."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from companion.chapters import lognormal
from companion.stats.rank_families import family
from companion.stats.rank_fits import RankDistribution
from rbp.measurements import open_source
from rbp.measurements.histograms import MeasuredRanks
from rbp.measurements.rank_counts import RankCounts

V = 300
RANKS = np.arange(1, V + 1)


def made_up(size, name="lognormal", values=(1.0, 1.3)):
    """Shares of one distribution in place of draws."""
    it = RankDistribution(family(name), values, V)
    return MeasuredRanks("wikipedia", f"m{size}", "F", size, RankCounts(RANKS, RANKS, it.masses * 1e6, V), 2.0)


@pytest.mark.long
def test_a_fit_of_a_histogram_has_the_excess_that_is_counted_by_hand():
    """One of the four models: rounded up from rank 1, and, from rank 2, what the authors' library finds."""
    measured = lognormal.main_group(open_source("published").histograms)[2:3]
    table = lognormal.fit_distributions(measured)
    rounded = lognormal.list_roundings(measured, table).set_index(["rounding", "first"])
    row, counts = rounded.loc[("lognormal_ceiling", 1)], measured[0].counts
    high = stats.norm.cdf((np.log(counts.high) - row.mu) / row.sigma)
    end = stats.norm.cdf((np.log(counts.vocabulary) - row.mu) / row.sigma)
    low = stats.norm.cdf((np.log(np.maximum(counts.low - 1, 1e-300)) - row.mu) / row.sigma)
    share = counts.count / counts.total
    by_hand = float(share @ (np.log(share) - np.log((high - low) / end)))
    assert (row.excess, row.deviance) == pytest.approx((by_hand, 2 * counts.total * by_hand), rel=1e-6)
    fitted, ranks = rounded.loc[("lognormal_rounded", 2)], np.arange(1, 50_305)
    weight = stats.lognorm.pdf(ranks, fitted.sigma, scale=np.exp(fitted.mu))
    density_p1 = lognormal.rank_1(measured, table)["density_p1"].item()
    assert density_p1 == pytest.approx(weight[0] / weight.sum(), rel=1e-9)
    assert (fitted.mu, fitted.sigma) == pytest.approx((fitted.mu_published, fitted.sigma_published), rel=0.01)


def test_a_limit_has_no_mu_and_no_sigma():
    upwards = RankDistribution(family("power_law_rounded"), (1.7,), V).masses * np.exp(0.01 * np.log(RANKS) ** 2)
    own = replace(made_up(7), counts=RankCounts(RANKS, RANKS, upwards * 1e5, V))
    found = lognormal.list_roundings([own], lognormal.fit_distributions([own])).query("rounding == 'lognormal'")
    assert found["at_limit"].all()
    assert found[["mu", "sigma"]].isna().all(axis=None)


def test_lines_of_parameters_give_back_their_own_exponents():
    exponents = {int(size): 1.2 + 0.05 * np.log(size / 1e6) for size in (1e6, 1e7, 1e8, 1e9)}
    group = [made_up(size, "power_law", (s,)) for size, s in exponents.items()]
    lines = lognormal.exponents_on_lines(group, lognormal.fit_distributions(group)).set_index("distribution")
    p1 = [1 / (RANKS ** -float(s)).sum() for s in exponents.values()]
    slope = np.polyfit(np.log(list(exponents)), np.log(-np.log(p1)), 1)[0]
    found = lines.loc["power_law"]
    assert found.line_alpha_p1 == pytest.approx(-slope, rel=1e-9)
    assert found.line_alpha_p1 == pytest.approx(found.alpha_p1, rel=1e-9)
    assert found.both
