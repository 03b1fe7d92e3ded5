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


def made_up(size, name="lognormal", values=(1.0, 1.3)):
    """Shares of one distribution in place of draws."""
    it = RankDistribution(family(name), values, V)
    ranks = np.arange(1, V + 1)
    counts = RankCounts(ranks, ranks, it.masses * 1e6, V)
    return MeasuredRanks("wikipedia", f"m{size}", "F", size, counts, 2.0)


@pytest.fixture(scope="module")
def pythia():
    """One of the four models, and the fits of its ranks."""
    measured = lognormal.main_group(open_source("published").histograms)[2:3]
    return measured, lognormal.fits(measured)


def test_the_family_of_the_largest_model_stands_for_all():
    counts = made_up(1).counts
    cells = [("c4", "A", 1), ("c4", "A", 9), ("c4", "A", 4), ("c4", "B", 2), ("x", "A", 8)]
    measured = [MeasuredRanks(dataset, f"{f}{size}", f, size, counts, None) for dataset, f, size in cells]
    assert [own.model for own in lognormal.main_group(measured)] == ["A1", "A4", "A9"]


@pytest.mark.long
def test_the_authors_parameters_come_out_of_their_histogram(pythia):
    (fitted,) = lognormal.roundings(*pythia).query("rounding == 'lognormal_rounded' and first == 2").itertuples()
    ranks = np.arange(1, 50_305)
    weight = stats.lognorm.pdf(ranks, fitted.sigma, scale=np.exp(fitted.mu))
    found = lognormal.rank_1(*pythia)["density_p1"].item()
    assert found == pytest.approx(weight[0] / weight.sum(), rel=1e-9)


def test_the_rounding_decides_whether_there_is_a_best_lognormal(pythia):
    found = lognormal.roundings_summary(*pythia)
    limits = [found[f"limits.{name}"] for name in lognormal.ROUNDINGS]
    assert limits == [1, 1, 0]
    assert found["passed"] == 0
    (row,) = lognormal.roundings(*pythia).query("rounding == 'lognormal_ceiling' and first == 1").itertuples()
    counts = pythia[0][0].counts
    high = stats.norm.cdf((np.log(counts.high) - row.mu) / row.sigma)
    end = stats.norm.cdf((np.log(counts.vocabulary) - row.mu) / row.sigma)
    low = stats.norm.cdf((np.log(np.maximum(counts.low - 1, 1e-300)) - row.mu) / row.sigma)
    share = counts.count / counts.total
    by_hand = float(share @ (np.log(share) - np.log((high - low) / end)))
    assert row.excess == pytest.approx(by_hand, rel=1e-6)
    assert row.deviance == pytest.approx(2 * counts.total * by_hand, rel=1e-6)
    assert found["mu_off"] < 0.0314
    assert found["sigma_off.lognormal_rounded"] < 0.0048


def test_a_limit_has_no_mu_and_no_sigma():
    ranks = np.arange(1, V + 1)
    upwards = RankDistribution(family("power_law_rounded"), (1.7,), V).masses * np.exp(0.01 * np.log(ranks) ** 2)
    own = replace(made_up(7), counts=RankCounts(ranks, ranks, upwards * 1e5, V))
    table = lognormal.fits([own])
    found = lognormal.roundings([own], table).query("rounding == 'lognormal'")
    assert found["at_limit"].all()
    assert found[["mu", "sigma"]].isna().all(axis=None)
    assert table.query("distribution == 'lognormal' and first == 2").at_limit.tolist() == [True]


def test_the_formula_gives_the_published_predictions():
    curves = lognormal.predicted()
    assert lognormal.reproduced_to(curves) < 1e-5


def test_lines_of_parameters_give_back_their_own_exponents():
    exponents = {int(size): 1.2 + 0.05 * np.log(size / 1e6) for size in (1e6, 1e7, 1e8, 1e9)}
    group = [made_up(size, "power_law", (s,)) for size, s in exponents.items()]
    lines = lognormal.exponents_on_lines(group, lognormal.fits(group)).set_index("distribution")
    p1 = [1 / (np.arange(1.0, V + 1) ** -s).sum() for s in exponents.values()]
    slope = np.polyfit(np.log(list(exponents)), np.log(-np.log(p1)), 1)[0]
    found = lines.loc["power_law"]
    assert found.line_alpha_p1 == pytest.approx(-slope, rel=1e-9)
    assert found.line_alpha_p1 == pytest.approx(found.alpha_p1, rel=1e-9)
    assert found.both
    assert (lines[["line_alpha_p1", "line_alpha_entropy"]].isna().all(axis=1) == (lines.at_limit > 0)).all()
    columns = ["alpha_{}_low", "line_alpha_{}", "alpha_{}_high"]
    low, line, high = (lines[[name.format(m) for m in ("p1", "entropy")]].to_numpy() for name in columns)
    assert lines.both.tolist() == ((low <= line) & (line <= high)).all(axis=1).tolist()
