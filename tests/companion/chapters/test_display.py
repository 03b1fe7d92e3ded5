"""Tables as pages show them, and the tables of chapters on measurements of two datasets."""

import pandas as pd

from rbp.report.display import INTERVAL, shown, written

ROWS = pd.DataFrame({"dataset": ["humaneval", "mine"], "alpha": [0.25, 0.5], "low": [-0.1, None], "high": [0.2, 0.3]})


def test_columns_have_labels_formats_and_an_order():
    columns = {("low", "high"): ("interval", INTERVAL), "alpha": ("α", "{:.1f}"), "dataset": "Dataset"}
    made = shown(ROWS, columns, caption="c")
    assert made["table"].to_dict("list") == {
        "interval": ["[−0.100, 0.200]", "–"],
        "α": [0.25, 0.5],
        "Dataset": ["HumanEval", "mine"],
    }
    assert (made["formats"], made["caption"]) == ({"α": "{:.1f}"}, "c")


def test_several_values_are_written_in_one_text_with_true_minus_signs():
    assert written("α = {:.1f} ([{:.1f}, {:.1f}]), x-axis", (-0.25, -1, 1)) == "α = −0.2 ([−1.0, 1.0]), x-axis"
    assert written(INTERVAL, (0.1, float("nan"))) == "–"
