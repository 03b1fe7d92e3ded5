import numpy as np
import pandas as pd
import pytest

from companion.chapters.appendix import fair


def test_two_known_numbers_give_a_cauchy_distribution():
    scored = pd.DataFrame({"outcome": [5.0, 3.0, 3.0], "score": -1.0, "level": 0.8}, index=[7, 9, 11])
    table = fair.with_fair_guess(scored, [[1.0, 3.0], [2.0, 2.0], [4.0]])
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
