"""Table 1 beside our fits: which cells agree, and what print alone implies."""

import numpy as np
import pytest
from scipy.stats import linregress

from companion.chapters.appendix import data
from rbp.measurements import open_source


@pytest.fixture(scope="module")
def table():
    return open_source("published").table


def test_what_print_implies_is_the_fits_own_p():
    x, y = np.arange(5.0), np.array([0.1, -0.9, -2.2, -2.8, -4.1])
    line = linregress(x, y)
    assert data.implied_by_print(line.rvalue**2, 5) == pytest.approx(line.pvalue)
    assert np.isnan(data.implied_by_print(1.0, 5))


def test_cells_are_counted_and_named(table):
    own = table[(table["dataset"] == "wikipedia") & (table["family"] == "GPT-2")]
    cells = data.recompute(own)
    assert data.count_agreement(cells) == (10, 9)  # one number of five cells differs
    differs = cells[cells["verdict"] == "differs"]
    assert data.name_cells(differs) == "GPT-2, Wikipedia, k = 10,000"
    assert data.name_cells(differs, r_squared=True) == "GPT-2, Wikipedia, k = 10,000 (0.915)"
    values = data.table_1_statistics(own)
    assert values["table1.agree_rounded"] == 10, "all, once shares are rounded as the authors rounded them"
    assert data.table_1_statistics(own.assign(dataset="mine")) == {}
