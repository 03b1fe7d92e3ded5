"""Fits of measured ranks: distances, bootstraps, resampled documents, what lines of parameters say of exponents."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rbp.evidence import open_source
from rbp.evidence.histograms import MeasuredRanks
from rbp.paper import rank_distributions
from rbp.stats.rank_counts import RankCounts
from rbp.stats.rank_families import family
from rbp.stats.rank_fits import RankDistribution, fit

V = 300


def made_up(seed: int, name: str = "lognormal", values: tuple[float, ...] = (1.0, 1.3), n: int = 4000) -> MeasuredRanks:
    drawn = RankDistribution(family(name), values, V).sample(n, seed)
    return MeasuredRanks("wikipedia", f"m{seed}", "F", 100 * seed, RankCounts.of_ranks(drawn, V), None)


def test_distance_is_kolmogorovs() -> None:
    own = made_up(1)
    it = RankDistribution(family("power_law"), (1.5,), V)
    drawn = np.repeat(own.counts.low, own.counts.count.astype(int))
    grid = np.arange(1, V + 1)
    seen = np.searchsorted(np.sort(drawn), grid, side="right") / len(drawn)
    expected = np.abs(seen - it.cdf(grid))[np.isin(grid, own.counts.low)].max()
    assert rank_distributions.distance(it, own.counts) == pytest.approx(expected)


def test_bootstrap_accepts_the_truth_and_rejects_another() -> None:
    own = made_up(2)
    for name, accepted in (("lognormal", True), ("power_law", False)):
        seen = rank_distributions.distance(fit(family(name), own.counts).distribution, own.counts)
        share = np.mean(rank_distributions.bootstrap(own, name, draws=39) >= seen)
        assert (share > 0.02) == accepted


def test_bootstrap_p_values_are_even_under_the_truth() -> None:
    p = []
    for seed in range(3, 23):
        own = made_up(seed, "power_law", (1.4,), 1000)
        seen = rank_distributions.distance(fit(family("power_law"), own.counts).distribution, own.counts)
        p.append((1 + np.sum(rank_distributions.bootstrap(own, "power_law", draws=39) >= seen)) / 40)
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_lines_of_parameters_give_back_their_own_exponents() -> None:
    sizes = np.array([1e6, 1e7, 1e8, 1e9])
    rows = []
    for size in sizes:
        s = 1.2 + 0.05 * np.log(size / 1e6)
        it = RankDistribution(family("power_law"), (s,), V)
        rows.append(
            {"distribution": "power_law", "found": "power_law", "size": int(size), "parameters": json.dumps({"s": s})}
            | {"vocabulary": V, "first": 1, "at_limit": False, "p1": float(it.pmf(1)), "entropy": it.entropy}
        )
    table = pd.DataFrame(rows)
    found = rank_distributions.exponents_of_fits(table).iloc[0]
    assert found.p1_off < 1e-9
    slope = np.polyfit(np.log(sizes), np.log(-np.log(table.p1)), 1)[0]
    assert found.line_alpha_p1 == pytest.approx(-slope, rel=1e-9)
    assert found.line_alpha_entropy > 0


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    return rank_distributions.fits(open_source("published").histograms)


def test_no_line_goes_through_a_limit(published: pd.DataFrame) -> None:
    table = published[published["first"] == 1]
    found = rank_distributions.exponents_of_fits(table).set_index("distribution")
    assert {name for name in found.index if found.at_limit[name]} == {
        "lognormal",
        "lognormal_rounded",
        "power_law_cutoff",
    }
    assert found.loc["lognormal", "at_limit"] == 4
    numbers = ["line_alpha_p1", "line_alpha_entropy", "p1_off", "entropy_off"]
    assert found.loc[found.at_limit > 0, numbers].isna().all(axis=None)
    assert found.loc[found.at_limit == 0, numbers].notna().all(axis=None)


def test_what_is_recorded_of_fits_is_conditioned_well_enough_for_nine_digits(published: pd.DataFrame) -> None:
    assert published["rounding"].max() < 1e-10
    table = published[(published["first"] == 1) & ~published["distribution"].isin(rank_distributions.DIAGNOSTIC)]
    plain = rank_distributions.exponents_of_fits(table).set_index("distribution")
    rng = np.random.default_rng(1)
    for _ in range(3):
        parameters = [
            json.dumps({name: value * (1 + 1e-8 * rng.choice([-1, 1])) for name, value in json.loads(text).items()})
            for text in table["parameters"]
        ]
        moved = rank_distributions.exponents_of_fits(table.assign(parameters=parameters)).set_index("distribution")
        for name in ("line_alpha_p1", "line_alpha_entropy"):
            condition = ((moved[name] / plain[name] - 1).abs() / 1e-8).max()
            assert condition * published["rounding"].max() < 1e-9


def test_families_within_the_margin_are_level(published: pd.DataFrame) -> None:
    table = published[(published["first"] == 1) & published["model"].str.endswith("12b")]
    assert set(rank_distributions.level_with(table, "lognormal")) == {"power_law", "power_law_cutoff"}
    assert set(rank_distributions.better(table, "lognormal")) == set(rank_distributions.better(table, "power_law"))
    assert rank_distributions.best(table, 1) == [rank_distributions.better(table, "lognormal")[0]]
    near = table.assign(per_token=table.per_token + np.where(table.distribution == "power_law", 1e-12, 0.0))
    assert "power_law" not in rank_distributions.better(near, "lognormal")
    apart = table.assign(per_token=table.per_token + np.where(table.distribution == "power_law", 1e-6, 0.0))
    assert "power_law" in rank_distributions.better(apart, "lognormal")


def test_a_limit_has_no_mu_and_no_sigma() -> None:
    own = made_up(7, "log_quadratic", (1.6, -0.05))
    rows = rank_distributions.lognormal_errors([own], rank_distributions.fits([own], firsts=(1,)), first=1).set_index(
        "distribution"
    )
    assert rows.loc["lognormal", "at_limit"]
    assert rows.loc["lognormal", ["mu", "sigma", "ratio", "mu_error", "ratio_error", "correlation"]].isna().all()


def test_mu_and_sigma_are_hard_to_tell_apart() -> None:
    own = made_up(4, values=(-3.0, 2.5), n=20_000)
    rows = rank_distributions.lognormal_errors([own], rank_distributions.fits([own], firsts=(2,))).set_index(
        "distribution"
    )
    assert rows.loc["lognormal", "correlation"] < -0.9
    assert abs(rows.loc["lognormal", "mu"] + 3) < 4 * rows.loc["lognormal", "mu_error"]


def test_profile_peaks_at_the_fit() -> None:
    own = made_up(5)
    top = list(fit(family("lognormal"), own.counts, first=2).distribution.parameters.values())
    at = pd.Series({"mu": top[0], "sigma": top[1], "mu_error": 0.25, "sigma_error": 0.25})
    grid = rank_distributions.profile(own, at, reach=2, points=3)
    assert grid["drop"].max() == pytest.approx(0, abs=1e-4)
    assert (grid["drop"] < -1).sum() == 8
    np.testing.assert_allclose(grid["per_thousand"], grid["drop"] / own.counts.since(2).total * 1000)


def test_best_leaves_the_diagnostic_out() -> None:
    table = rank_distributions.fits([made_up(6)], firsts=(1,))
    assert "log_quadratic" not in rank_distributions.best(table, 9)
    assert "lognormal" in rank_distributions.best(table, 3)


def test_the_family_of_the_largest_model_stands_for_all() -> None:
    counts = made_up(1).counts
    cells = [
        ("c4", "A", 1),
        ("c4", "A", 9),
        ("c4", "A", 4),
        ("c4", "B", 2),
        ("c4", "B", 3),
        ("x", "A", 8),
        ("c4", "C", 5),
    ]
    measured = [MeasuredRanks(dataset, f"{f}{size}", f, size, counts, None) for dataset, f, size in cells]
    assert [own.model for own in rank_distributions.main_group(measured)] == ["A1", "A4", "A9"]
    ends = [own.model for own in rank_distributions.smallest_and_largest(measured)]
    assert ends == ["A1", "A9", "C5", "B2", "B3"]


def test_places_are_told_with_those_that_are_level(published: pd.DataFrame) -> None:
    table = published[(published["first"] == 1) & published["model"].str.endswith("12b")]
    order = table[table["distribution"] != "log_quadratic"].sort_values("per_token", ascending=False)["distribution"]
    assert rank_distributions.place(table, order.iloc[0]).startswith("the best of 8 families")
    assert rank_distributions.place(table, order.iloc[1]) == "second of 8 families"
    assert rank_distributions.place(table, "power_law").endswith("level with the lognormal and power law with cut-off")


def test_a_ratio_straight_in_log_size_is_found_to_be(published: pd.DataFrame) -> None:
    size = np.array([1e6, 1e7, 1e9])
    errors = pd.DataFrame({"distribution": "lognormal", "size": size, "ratio": 1 - 0.5 * np.log(size)})
    (found,) = rank_distributions.lines_of_ratio(errors.assign(at_limit=False)).to_dict("records")
    assert found["ratio_slope"] == pytest.approx(-0.5)
    assert found["ratio_r_squared_lnS"] == pytest.approx(1)
    assert rank_distributions.lines_of_ratio(errors.assign(at_limit=[False, True, False])).empty
    assert rank_distributions.lines_of_ratio(errors[:2].assign(at_limit=False)).empty


def test_a_family_agrees_where_both_of_its_exponents_lie_within_the_intervals(published: pd.DataFrame) -> None:
    measured = rank_distributions.measured_exponents(open_source("published").histograms)
    lines = rank_distributions.exponents_on_lines(published, measured).set_index("distribution")
    (row,) = measured.to_dict("records")
    within = [
        all(row[f"alpha_{m}_low"] <= line[f"line_alpha_{m}"] <= row[f"alpha_{m}_high"] for m in ("p1", "entropy"))
        for _, line in lines.iterrows()
    ]
    assert list(lines["both"]) == within
    assert 0 < sum(within) < len(lines)
    assert lines["far"].dropna().is_monotonic_increasing
    assert rank_distributions.exponents_on_lines(published, measured[:0]).empty
