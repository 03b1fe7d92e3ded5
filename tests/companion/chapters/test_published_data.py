"""Appendix A: how well counting knows a point, what print implies, and checks that can fail."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress

from companion.chapters.appendix import data
from companion.evidence import published


def test_counting_knows_a_point_to_one_over_the_root_of_its_misses():
    size = np.array([10**6, 10**7, 10**8, 10**9])
    rows = {"dataset": "new", "family": "Pythia", "model": "m", "size": size, "metric": "neg_log_rbp", "k": 1}
    own = pd.DataFrame(rows | {"value": 2 * size**-0.5, "tokens": pd.NA})
    tokens = pd.DataFrame({"dataset": ["new"], "family": ["Pythia"], "tokens": [10**9], "basis": ["counted"]})
    known = data.with_counting_error(data.published_points(own), tokens)
    few = known[known["value"] < 0.001]
    assert few["relative_se"].to_numpy() == pytest.approx(few["misses"].to_numpy() ** -0.5, rel=1e-3)


def test_what_print_implies_is_the_fits_own_p():
    x, y = np.arange(5.0), np.array([0.1, -0.9, -2.2, -2.8, -4.1])
    line = linregress(x, y)
    assert data.implied_by_print(line.rvalue**2, 5) == pytest.approx(line.pvalue)
    assert np.isnan(data.implied_by_print(1.0, 5))


def test_a_wrong_number_fails_a_check(tmp_path, monkeypatch):
    for file in published.FOLDER.glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    rbp = pd.read_csv(tmp_path / "rbp.csv")
    for figure, factor in (("figure 5", 1.3), ("figure 3", 1.01)):
        rbp.loc[(rbp["source"] == figure).idxmax(), "neg_log_rbp"] *= factor
    rbp.to_csv(tmp_path / "rbp.csv", index=False)
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    table = data.checks().set_index("check")
    assert table.loc["figure_5", "agree"] < table.loc["figure_5", "compared"]
    assert table.loc["table_1", "agree"] < 96
