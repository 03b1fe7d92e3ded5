import math

import numpy as np
import pandas as pd
import pytest
from draws import loop_and_slow
from scipy.stats import f as f_distribution
from scipy.stats import kstest, linregress

from rbp.core.errors import DataError, FitError
from rbp.stats.compare import aicc, common_exponent, compare_offset, paired_exponents
from rbp.stats.power_law import fit_power_law

SIZES = np.geomspace(1e6, 1e10, 10)


def families(rng: np.random.Generator, alphas: tuple[float, ...], sd: float = 0.03) -> pd.DataFrame:
    parts = []
    for i, alpha in enumerate(alphas):
        sizes = np.geomspace(1e7, 1e10, 5 + i)
        values = (2 + i) * sizes**-alpha * np.exp(sd * rng.normal(size=5 + i))
        parts.append(pd.DataFrame({"family": f"family-{i}", "size": sizes, "value": values}))
    return pd.concat(parts, ignore_index=True)


def test_aicc_by_hand_and_where_it_is_none() -> None:
    assert aicc(2.0, 10, 3) == pytest.approx(10 * math.log(0.2) + 6 + 24 / 6, rel=1e-12)
    assert aicc(2.0, 5, 3) is None
    assert aicc(2.0, 6, 4) is not None
    assert aicc(2.0, 6, 5) is None
    assert math.isfinite(aicc(0.0, 10, 3) or math.nan)


def test_compare_offset_finds_the_law_that_made_the_points() -> None:
    rng = np.random.default_rng(1)
    noise = np.exp(0.01 * rng.normal(size=10))
    bent = compare_offset(SIZES, (0.3 + 40 * SIZES**-0.25) * noise)
    assert bent.delta_aicc is not None
    assert bent.delta_aicc < -10
    assert "the law with an offset" in bent.statement
    straight = compare_offset(SIZES, 40 * SIZES**-0.25 * noise)
    assert straight.delta_aicc is not None
    assert straight.delta_aicc > -2
    expected = aicc(straight.offset.rss, 10, 4) - aicc(straight.pure.residual_se**2 * 8, 10, 3)
    assert straight.delta_aicc == pytest.approx(expected, rel=1e-12)
    perfect = compare_offset(SIZES, 40 * SIZES**-0.25)
    assert perfect.delta_aicc is not None
    assert perfect.delta_aicc > 0  # rounding must not buy a parameter


def test_compare_offset_does_not_pretend_with_few_points() -> None:
    few = compare_offset(SIZES[:5], [3, 2, 1.5, 1.4, 1.3])
    assert few.delta_aicc is None
    assert few.statement == "Whether an offset is needed cannot be told from 5 points."


def test_common_exponent_is_the_f_test_of_two_residual_sums() -> None:
    table = families(np.random.default_rng(2), (0.10, 0.12, 0.11))
    got = common_exponent(table, level=0.9)
    # by hand: separate lines, against lines with each family's own mean and one slope
    x, y = np.log(table["size"]), np.log(table["value"])
    dx, dy = (v - v.groupby(table["family"]).transform("mean") for v in (x, y))
    pooled = (dx @ dy) / (dx @ dx)
    rss_pooled = np.sum((dy - pooled * dx) ** 2)
    rss_free = 0.0
    for _, i in table.groupby("family").groups.items():
        line = linregress(x[i], y[i])
        rss_free += np.sum((y[i] - line.intercept - line.slope * x[i]) ** 2)
    n = len(table)
    f = (rss_pooled - rss_free) / 2 / (rss_free / (n - 6))
    assert (got.df_num, got.df_den) == (2, n - 6)
    assert got.f == pytest.approx(f, rel=1e-9)
    assert got.p == pytest.approx(f_distribution.sf(f, 2, n - 6), rel=1e-9)
    assert got.alpha == pytest.approx(-pooled, rel=1e-9)
    assert got.alpha_low < got.alpha < got.alpha_high
    assert list(got.separate) == ["family-0", "family-1", "family-2"]
    one = table[table["family"] == "family-1"]
    assert got.separate["family-1"] == fit_power_law(one["size"], one["value"], level=0.9)


@pytest.mark.parametrize("draws", loop_and_slow(20, 200))
def test_common_exponent_rejects_as_often_as_it_says_and_when_it_should(draws: int) -> None:
    rng = np.random.default_rng(3)
    p = [common_exponent(families(rng, (0.1, 0.1))).p for _ in range(draws)]
    assert kstest(p, "uniform").pvalue > 0.01
    assert common_exponent(families(rng, (0.1, 0.2))).p < 1e-3


def test_common_exponent_errors() -> None:
    table = families(np.random.default_rng(4), (0.1, 0.2))
    with pytest.raises(FitError, match="1 family"):
        common_exponent(table[table["family"] == "family-0"])
    with pytest.raises(FitError, match="family family-0"):
        common_exponent(table.drop(index=[0, 1, 2]))
    with pytest.raises(DataError, match="no column family"):
        common_exponent(table.drop(columns="family"))
    with pytest.raises(FitError, match="no scatter"):
        common_exponent(families(np.random.default_rng(4), (0.1, 0.2), sd=0))


def test_paired_exponents_are_the_line_of_the_log_ratio() -> None:
    rng = np.random.default_rng(5)
    first, second = (4 * SIZES**-a * np.exp(0.02 * rng.normal(size=10)) for a in (0.09, 0.08))
    got = paired_exponents(SIZES, first, second)
    line = linregress(np.log(SIZES), np.log(first / second))
    assert got.difference == pytest.approx(-line.slope, rel=1e-10)
    assert got.difference == pytest.approx(got.alpha_first - got.alpha_second, abs=1e-12)
    assert (got.p, got.df) == (pytest.approx(line.pvalue, rel=1e-8), 8)
    assert got.t == pytest.approx(-line.slope / line.stderr, rel=1e-9)
    assert got.low < got.difference < got.high


@pytest.mark.parametrize("draws", loop_and_slow(50, 500))
def test_what_both_metrics_share_at_a_model_cancels(draws: int) -> None:
    rng, p, wide = np.random.default_rng(6), [], []
    for _ in range(draws):
        shared = np.exp(0.2 * rng.normal(size=10))
        first, second = (a * SIZES**-0.1 * shared * np.exp(0.01 * rng.normal(size=10)) for a in (4, 2))
        got = paired_exponents(SIZES, first, second)
        p.append(got.p)
        wide.append(got.high - got.low)
    assert kstest(p, "uniform").pvalue > 0.01
    alone = fit_power_law(SIZES, first)
    assert np.mean(wide) < 0.2 * (alone.alpha_high - alone.alpha_low)


def test_paired_exponents_errors() -> None:
    with pytest.raises(FitError, match="second 0"):
        paired_exponents(SIZES[:3], [3, 2, 1], [1, 0, 2])
    with pytest.raises(FitError, match="2 values"):
        paired_exponents(SIZES[:3], [3, 2, 1], [1, 2])
    with pytest.raises(FitError, match="do not vary"):
        paired_exponents(SIZES[:3], [3, 2, 1], [6, 4, 2])
