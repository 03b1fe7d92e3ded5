"""The predicted curves against the authors' published ones, and the fits of measured ranks against theirs."""

from dataclasses import replace

import numpy as np
import pytest
from simulated import in_bins

from rbp.evidence import histograms, open_source, published
from rbp.paper import predicted_curves
from rbp.stats.rank_counts import RankCounts
from rbp.stats.rank_families import family
from rbp.stats.rank_fits import RankDistribution


@pytest.fixture(scope="module")
def curves():
    return predicted_curves.both_metrics()


def test_the_formula_gives_the_published_predictions(curves) -> None:
    wide = curves.pivot_table(index=["model", "metric"], columns="kind", values="value")
    np.testing.assert_allclose(wide[predicted_curves.FORMULA], wide[predicted_curves.PUBLISHED], rtol=1e-5)
    # exact sums are something else: a formula that just copied would not be told apart
    assert (np.abs(wide[predicted_curves.EXACT] / wide[predicted_curves.PUBLISHED] - 1) > 1e-3).all()


def test_a_finite_vocabulary_lacks_the_far_tail(curves) -> None:
    wide = curves.pivot_table(index=["model", "metric"], columns="kind", values="value")
    assert (wide[predicted_curves.FINITE] < wide[predicted_curves.EXACT]).all()


def test_measured_exponents_are_the_printed_ones(curves) -> None:
    found = predicted_curves.exponents(curves).set_index("kind").loc[predicted_curves.MEASURED]
    printed = published.table1().query("dataset == 'wikipedia' and family == 'Pythia'")
    for column, own in (
        ("alpha_ce", printed[printed.metric == "cross_entropy"]),
        ("alpha_p1", printed[printed.k == 1]),
    ):
        assert found[column] == pytest.approx(-own.slope.iloc[0], abs=6e-4)


def test_the_authors_parameters_come_out_of_their_histogram() -> None:
    found = predicted_curves.fits_with_and_without_1(open_source("published").histograms).set_index("model")
    given = published.lognormal_parameters().set_index("model").loc[found.index]
    np.testing.assert_allclose(found["mu"], given["mu"], atol=0.0314)
    np.testing.assert_allclose(found["sigma"], given["sigma"], atol=0.0048)
    assert found["limit"].all()
    assert (found["tau"] < 0).all()


def test_the_lognormal_comes_close_as_drawn_and_a_power_law_is_told_apart() -> None:
    true = RankDistribution(family("lognormal_rounded"), (1.5, 2.5), 50_000, 2)
    single = RankCounts(np.arange(1, 50_001), np.arange(1, 50_001), np.append(1e8, true.masses * 1e8), 50_000)
    binned = in_bins(single, np.append(1, np.unique(np.round(np.geomspace(2, 50_001, 30)))))
    own = replace(open_source("published").histograms[0], counts=binned)
    found = predicted_curves.as_drawn([own]).set_index("distribution").r_squared
    assert found["lognormal_rounded"] == pytest.approx(1, abs=1e-6)
    assert found["power_law"] < 0.99


def test_published_counts_add_up_to_the_recovered_tokens() -> None:
    for own in open_source("published").histograms:
        assert own.counts.total == pytest.approx(317_684, abs=4)
        assert own.cross_entropy is not None
        assert (own.counts.count == np.rint(own.counts.count)).all()


def test_entropy_of_bins_brackets_the_truth() -> None:
    true = RankDistribution(family("zipf_mandelbrot"), (1.4, 0.3), 5000)
    single = RankCounts(np.arange(1, 5001), np.arange(1, 5001), true.masses * 1e9, 5000)
    assert histograms.entropy(single) == pytest.approx((true.entropy,) * 3, rel=1e-5)
    smooth, least, greatest = histograms.entropy(in_bins(single, np.unique(np.round(np.geomspace(1, 5001, 40)))))
    assert least < true.entropy < greatest
    assert smooth == pytest.approx(true.entropy, abs=2e-4)
    assert greatest - least < 0.03


def test_entropy_of_a_sample_is_nearly_unbiased() -> None:
    true = RankDistribution(family("power_law"), (1.2,), 500)
    found = [histograms.entropy(RankCounts.of_ranks(true.sample(4000, seed), 500))[0] for seed in range(20)]
    error = np.std(found) / np.sqrt(20)
    assert np.mean(found) == pytest.approx(true.entropy, abs=3 * error + 0.01)  # the plain one is 0.04 too low
