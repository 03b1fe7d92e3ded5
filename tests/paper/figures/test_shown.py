"""Tables as pages show them."""

import numpy as np
import pandas as pd

from rbp.paper.figures.shown import as_shown, intervals


def test_columns_stand_under_their_labels_in_the_order_named():
    table = pd.DataFrame({"k": [1, 10], "alpha": [0.1, 0.2], "unused": 0})
    shown = as_shown(table, {"α": ("alpha", "{:.3f}"), "k": "k"}, "two")
    pd.testing.assert_frame_equal(shown["table"], pd.DataFrame({"α": [0.1, 0.2], "k": [1, 10]}))
    assert (shown["caption"], shown["formats"]) == ("two", {"α": "{:.3f}"})
    assert shown["data"] is table
    assert as_shown(table, {"k": "k"}, "two", data=shown["table"])["data"] is shown["table"]


def test_an_interval_that_is_not_there_is_missing():
    low, high = pd.Series([-0.1, np.nan]), pd.Series([0.25, np.nan])
    assert intervals(low, high).tolist() == ["[−0.100, 0.250]", None]
