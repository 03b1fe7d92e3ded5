"""Student's t beside registered forecasts: against a closed form, simulation, and the heads of the registered files."""

import numpy as np
import pandas as pd
import pytest

from companion.chapters.appendix import fair, predictions


def test_two_known_numbers_give_a_cauchy_distribution():
    """With n = 2, t has one degree of freedom: quantiles and density by hand."""
    scored = pd.DataFrame({"outcome": [5.0, 3.0, 3.0], "score": [-1.0, -1.0, -1.0]}, index=[7, 9, 11])
    table = fair.with_fair_guess(scored, [[1.0, 3.0], [2.0, 2.0], [4.0]], 0.8)
    scale = np.sqrt(2) * np.sqrt(1.5)
    half = scale * np.tan(0.4 * np.pi)
    row = table.loc[7]
    assert (row["fair_low"], row["fair_high"]) == pytest.approx((2 - half, 2 + half))
    assert row["fair_inside"] == 1
    log_density = -np.log(np.pi * scale * (1 + (3 / scale) ** 2))
    assert row["fair_score"] == pytest.approx(log_density)
    assert row["fair_gain"] == pytest.approx(-1 - log_density)
    assert table.loc[[9, 11], fair.COLUMNS].isna().all(axis=None), "no scatter, or one number"
    counts = fair.fair_statistics(table)
    assert (counts["fair"], counts["fair_inside"], counts["fair_better"]) == (1, 1, int(log_density < -1))


def test_what_was_known_is_what_the_registered_files_say():
    said, _ = predictions.read_predictions()
    known = pd.Series(fair.known_to_ladders(said), said.index)
    exponents = {k: known[(said["kind"] == "exponent") & (said["k"] == k)].iloc[0] for k in (1, 10)}
    # the comments of data/predictions/ladders.toml
    assert sorted(exponents[1]) == pytest.approx([0.064, 0.080, 0.096, 0.127], abs=5e-4)
    assert sorted(exponents[10]) == pytest.approx([0.067, 0.089, 0.114, 0.160], abs=5e-4)
    slopes = known[said["kind"] == "slope_in_cross_entropy"].iloc[0]
    assert sorted(slopes) == pytest.approx([1.56, 1.59, 2.12, 2.57], abs=5e-3)
    assert set(said.loc[known.map(bool), "kind"]) == {"exponent", "slope_in_cross_entropy"}
    offsets = pd.DataFrame({"kind": ["offset", "offset", "spread"], "k": [1, 1000, 1]})
    first, last, none = fair.known_to_paths(offsets)
    assert first == pytest.approx(np.log([1.336 / 1.377, 1.438 / 1.377, 1.403 / 1.377, 1.642 / 1.532, 1.343 / 1.458]))
    assert last == pytest.approx(np.log([0.027 / 0.022, 0.018 / 0.022, 1, 0.022 / 0.030, 0.041 / 0.026]))
    assert none == []
