import pandas as pd

from rbp.evidence import published
from rbp.paper.appendix.data import checks


def test_every_check_passes_but_the_coarse_points_of_figure_6():
    table = checks().set_index("check")
    assert table.loc["table_1", "compared"] == 96
    assert table.loc["exact_counts", "compared"] == 12
    failed = table["compared"] - table["agree"]
    # k = 10 000 is read from figure 7's linear axis
    assert failed[failed > 0].to_dict() == {"figure_6": 2}
    assert table.loc["figure_6", "worst"] < 5e-5


def test_a_wrong_number_fails_a_check(tmp_path):
    for file in published.FOLDER.glob("*.csv"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    rbp = pd.read_csv(tmp_path / "rbp.csv")
    rbp.loc[(rbp["source"] == "figure 5").idxmax(), "neg_log_rbp"] *= 1.3
    rbp.to_csv(tmp_path / "rbp.csv", index=False)
    table = checks(tmp_path).set_index("check")
    assert table.loc["figure_5", "agree"] < table.loc["figure_5", "compared"]
    rbp.loc[(rbp["source"] == "figure 3").idxmax(), "neg_log_rbp"] *= 1.01
    rbp.to_csv(tmp_path / "rbp.csv", index=False)
    assert checks(tmp_path).set_index("check").loc["table_1", "agree"] < 96
