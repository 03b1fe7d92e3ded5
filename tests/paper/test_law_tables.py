"""The tables of the chapters on the law: every number where it belongs, bounds and gaps marked as such."""

import numpy as np
import pandas as pd
import pytest

from rbp.core.errors import DataError
from rbp.core.paths import LADDER
from rbp.evidence import open_source, select
from rbp.evidence.tokens import tokens_behind
from rbp.paper import law, measurements
from rbp.stats import counting, subsets
from rbp.stats.cells import fit_table

SIZES = [10**6, 10**7, 10**8, 10**9]


def points(alphas: dict[int, float], family: str = "Toy") -> pd.DataFrame:
    """Exact laws, −ln RBP_k = 2·S^(−α), at the k of `alphas`."""
    rows = [("new", family, f"m{s}", s, "neg_log_rbp", k, 2 * s**-alpha) for k, alpha in alphas.items() for s in SIZES]
    return pd.DataFrame(rows, columns=["dataset", "family", "model", "size", "metric", "k", "value"])


def test_gains_compare_the_ends_of_each_family_at_two_thresholds() -> None:
    # at k = 100 −ln RBP falls by 10 instead of 2, but from 0.1: RBP gains 8.5 points, and 14 at k = 1
    rows = [("Toy", 1, 10**6, 1.0), ("Toy", 1, 10**9, 0.5), ("Toy", 100, 10**6, 0.1), ("Toy", 100, 10**9, 0.01)]
    rows += [("Toy", 100, 10**7, 5.0), ("Toy", 10, 10**6, 9.0)]  # not at both thresholds
    rows += [("One", k, 10**6, 1.0) for k in (1, 100)]
    table = pd.DataFrame(rows, columns=["family", "k", "size", "value"]).assign(dataset="new")
    assert law.gains(table, 1, 100) == {"gain_cells": 1, "gain_factor": 1, "gain_points": 0}
    wider = table.assign(value=table["value"].mask((table["k"] == 100) & (table["size"] == 10**6), 3.0))
    assert law.gains(wider, 1, 100) == {"gain_cells": 1, "gain_factor": 1, "gain_points": 1}
    assert law.gains(table[table["k"] == 1], 1, 100)["gain_cells"] == 0


def test_fits_stand_in_rows_and_a_family_without_one_says_why() -> None:
    both = pd.concat([points({1: 0.1, 20: -0.05}), points({1: 0.1}, "Few")[:2]])
    shown = law.fits_shown(fit_table(both), level=0.9)
    table = shown["table"].set_index(["Family", "k"])
    assert table.loc[("Toy", 20), "α"] == pytest.approx(-0.05)
    assert table.loc[("Toy", 20), "90% interval"] == "[−0.050, −0.050]"
    assert table["note"].to_dict()["Toy", 1] == "weak"
    assert table.loc[("Few", 1), "90% interval"] == "–"
    assert "size" in table.loc[("Few", 1), "note"]


def test_fits_by_k_have_a_column_for_each_k() -> None:
    table = law.fits_by_k_shown(fit_table(points({10: 0.1, 50: 0.2})), level=0.95)["table"]
    row = table.iloc[0].to_dict()
    assert row.pop("k = 10: α ± 95%; R²") == "0.100 ± 0.000; 1.000"
    assert row.pop("k = 50: α ± 95%; R²") == "0.200 ± 0.000; 1.000"
    assert row == {"Dataset": "new", "Family": "Toy"}
    own = points({10: 0.1})
    fits = fit_table(own.assign(value=own["value"] * [1.1, 0.9, 1.1, 0.9]))
    (fit,) = fits.itertuples()
    text = law.fits_by_k_shown(fits, level=0.95)["table"]["k = 10: α ± 95%; R²"].item()
    assert text == f"{fit.alpha:.3f} ± {fit.alpha - fit.alpha_low:.3f}; {fit.r_squared:.3f}"


def test_a_bound_of_the_tokens_bounds_what_follows() -> None:
    own = points({1: 0.2})
    tokens = pd.DataFrame({"dataset": ["new"], "family": ["Toy"], "tokens": [10_000], "basis": ["at most"]})
    noisy = own.assign(value=own["value"] * [1.1, 0.9, 1.1, 0.9])
    scatter = counting.scatter_beside_counting(noisy, fit_table(noisy), tokens)
    row = law.misses_shown(counting.misses_at_ends(noisy.assign(tokens=pd.NA), tokens))["table"].iloc[0]
    assert row["tokens N"] == "≤ 10,000"
    assert row["missed, smallest model"] == f"≤ {10_000 * -np.expm1(-noisy['value'].iloc[0]):.0f}"
    assert row["fewest missed"] == f"≤ {10_000 * -np.expm1(-noisy['value'].min()):.0f}"
    share = law.counting_shown(scatter, caption="Here.")["table"].iloc[0]
    assert share["noise, %"] == pytest.approx(100 * (share["from counting, %"] / share["scatter, %"]) ** 2)


def test_exponents_rise_from_1_to_100() -> None:
    own = points({1: 0.1, 10: 0.15, 50: 0.12, 100: 0.2})
    rise = subsets.steps(own[own["k"].isin([1, 100])])
    chains = subsets.chains(subsets.steps(own))
    fits = subsets.fit_thresholds(own)
    row = law.exponents_shown(fits, rise, chains, level=0.95)["table"].iloc[0]
    assert row[["α, k = 1", "α, k = 100", "rise"]].tolist() == pytest.approx([0.1, 0.2, 0.1])
    assert row["steps that do not rise"] == "1 of 3"
    few = law.exponents_shown(fits[fits["models"] == "common"], rise, chains, level=0.95)["table"]
    assert few["α, k = 1"].isna().all()


def test_counting_knows_a_point_to_one_over_the_root_of_its_misses() -> None:
    own = points({1: 0.5}).assign(tokens=pd.NA, family="Pythia")
    tokens = pd.DataFrame({"dataset": ["new"], "family": ["Pythia"], "tokens": [10**9], "basis": ["counted"]})
    known = measurements.with_counting_error(measurements.published_points(own), tokens)
    few = known[known["value"] < 0.001]
    assert few["relative_se"].to_numpy() == pytest.approx(few["misses"].to_numpy() ** -0.5, rel=1e-3)
    with pytest.raises(DataError, match="no number of tokens"):
        measurements.with_counting_error(own, tokens[:0])
    with pytest.raises(DataError, match="none of their families"):
        measurements.published_points(own.assign(family="Other"))


def test_the_setup_beside_the_paper() -> None:
    points = select(open_source("published").table, metric="neg_log_rbp")
    recovered = tokens_behind(points[points["dataset"] == "wikipedia"])
    table = measurements.setup_shown(points, points.drop_duplicates("model"), recovered)["table"].set_index("what")
    assert table.loc["models", "ours"] == "24"
    assert table.loc["vocabulary, OPT", ["printed", "ours"]].tolist() == ["50,272", "50,272"]
    assert table.loc["vocabulary, Pythia", "ours"] == "50,304 or 50,432 or 50,688"


def test_coverage_is_the_mean_over_texts_and_statistics() -> None:
    table = pd.read_csv(LADDER / "coverage.csv")
    found = measurements.coverage()
    row = found[found["kind"] == "percentile"].iloc[0]
    own = table[(table["kind"] == "percentile") & (table["level"] == 0.95)]
    effect = own["statistic"] == "ln design effect, k = 1"
    of_24 = own[~effect & (own["documents"] == 24)]
    assert set(of_24["text"]) == {"auslegal"}
    assert row["covered_24"] == pytest.approx(sum(of_24["covered"]) / 11)
    assert row["covered_effect"] == pytest.approx(own["covered"][effect].mean())
    assert row["width"] == pytest.approx(own["width"][~effect].mean())
    shown = measurements.coverage_shown(found)["table"]
    assert shown["164"].tolist() == found["covered_164"].tolist()
    assert len(shown) == 7
