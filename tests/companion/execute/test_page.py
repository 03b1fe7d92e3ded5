"""Checksums of the tables and downloads of a page: what `rbp verify` compares."""

import pandas as pd
import pytest

from companion.execute.page import Page, checksum_contents
from companion.execute.results import CHECKSUM, merge
from rbp.figures.style import Panels

ALPHAS = pd.DataFrame({"family": ["Pythia", "OPT"], "one": [0.0561, 0.1], "hundred": [0.1262, 0.2], "models": [10, 7]})


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (ALPHAS.assign(one=ALPHAS["one"] * (1 + 1e-13)), True),  # another processor's last digits
        (ALPHAS.rename(columns={"one": "hundred", "hundred": "one"}), False),
        (ALPHAS.assign(models=[10, 8]), False),
        (ALPHAS.assign(one=[0.0561, 0.1001]), False),
        (ALPHAS.assign(one=[0.0561, None]), False),
    ],
)
def test_a_checksum_of_contents_is_of_names_words_and_numbers(other, same):
    assert (checksum_contents(other) == checksum_contents(ALPHAS)) is same


def test_what_is_no_more_than_rounding_is_nothing():
    residuals = pd.DataFrame({"residual": [0.5, 3e-17, -1e-17]})
    assert checksum_contents(residuals) == checksum_contents(residuals.assign(residual=[0.5, 0.0, 2e-17]))
    assert checksum_contents(residuals) != checksum_contents(residuals.assign(residual=[0.5, 0.0, 2e-5]))
    words = pd.DataFrame({"parameters": ['{"s": 1.2969522919827121}']})
    assert checksum_contents(words) == checksum_contents(words.replace("21}", "19}", regex=True))
    assert checksum_contents(words) != checksum_contents(words.replace("1.29", "1.28", regex=True))


def test_each_file_of_data_and_the_text_of_each_table_have_a_checksum(tmp_path, monkeypatch, capsys):
    """Also where the download is another table than the page's."""
    monkeypatch.setenv("RBP_OUT", str(tmp_path))

    def checksums(**arguments):
        page = Page("holds")
        page.table("alphas", **{"table": ALPHAS, "caption": "", "data": ALPHAS[["models"]], **arguments})
        page.download("all", ALPHAS, "All")
        page.figure("law", Panels(["a"], lambda ax, key: None), caption="", alt="", data=ALPHAS)
        page.close()
        recorded = merge([tmp_path / "results.json"])["holds"]
        assert {each.unit for each in recorded.values()} == {CHECKSUM}
        return {key: each.value for key, each in recorded.items()}

    plain = checksums()
    assert plain.keys() == {path.name for path in tmp_path.rglob("*.csv")} == {"alphas.csv", "all.csv", "law.csv"}
    assert plain["all.csv"] == plain["law.csv"]
    assert checksums() == checksums(rows=1) == plain
    for each in (checksums(formats={"one": "{:.1f}"}), checksums(data=ALPHAS[["one"]])):
        assert {key for key in plain if each[key] != plain[key]} == {"alphas.csv"}
